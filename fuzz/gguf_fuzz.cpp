// Any bytes as a GGUF file: refused with an Error, or all of it can be read, and what is written
// from it is read again.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "gguf/file.h"
#include "gguf/writer.h"

namespace {

using namespace billow;

// Keeps the compiler from leaving out the reads.
void consume(double value) {
  volatile double sink = value;
  static_cast<void>(sink);
}

void touch(const gguf::Array& array) {
  const size_t n_elements = gguf::value_type_bytes(array.element_type) != 0 ? array.n : 0;
  for (size_t i = 0; i < n_elements; ++i) {
    consume(array.number(i) + static_cast<double>(array.integer(i)));
  }
  for (const std::string_view text : array.strings) consume(text.empty() ? 0 : text.back());
  for (const gguf::Array& inner : array.arrays) touch(inner);
}

void touch(const gguf::File& file) {
  for (const gguf::Entry& entry : file.metadata()) {
    BILLOW_CHECK(file.find(entry.key) == &entry.value);
    consume(gguf::as_float(entry.value).value_or(0));
    if (const gguf::Array* array = gguf::as_array(entry.value)) touch(*array);
    try {
      consume(static_cast<double>(file.require_uint(entry.key)));
    } catch (const Error&) {  // of another type
    }
  }
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    BILLOW_CHECK(file.find_tensor(tensor.name) == &tensor);
    BILLOW_CHECK(!tensor.data.empty());
    consume(std::to_integer<int>(tensor.data.front()) + std::to_integer<int>(tensor.data.back()));
  }
}

std::vector<std::byte> written(const gguf::File& file) {
  gguf::Writer writer;
  for (const gguf::Entry& entry : file.metadata()) writer.set(entry.key, entry.value);
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    writer.add_tensor(tensor.name, tensor.type, std::span(tensor.shape).first(tensor.n_dims),
                      tensor.data);
  }
  return writer.to_bytes();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const gguf::File file = gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
    touch(file);
    if (file.alignment() > 4096) return 0;  // padding would take all the time
    const std::vector<std::byte> first = written(file);
    const gguf::File again = gguf::File::parse(first, "written");
    BILLOW_CHECK(again.metadata().size() == file.metadata().size());
    BILLOW_CHECK(again.tensors().size() == file.tensors().size());
    BILLOW_CHECK(written(again) == first);
  } catch (const Error&) {  // refused
  }
  return 0;
}
