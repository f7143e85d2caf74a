// Parses any bytes as a GGUF file. The file is rejected with an Error, or all of its content is
// readable. A file that is written from it is then readable, too. A reader of only the header has
// the same result.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "gguf/cursor.h"
#include "gguf/file.h"
#include "gguf/shard.h"
#include "gguf/writer.h"

namespace {

using namespace billow;

// Prevents the compiler from removing the reads.
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
    } catch (const Error&) {  // another type
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

// Parses the header in growing pieces. Returns false if the header is rejected.
bool reads_header(std::span<const std::byte> bytes, size_t& n_entries, size_t& n_tensors) {
  for (uint64_t n = std::min<uint64_t>(gguf::kMinHeaderBytes, bytes.size());;) {
    const std::vector<std::byte> first(bytes.begin(),
                                       bytes.begin() + static_cast<std::ptrdiff_t>(n));
    try {
      const gguf::Shard shard = gguf::parse_header(first, bytes.size(), "fuzz");
      for (const gguf::Entry& entry : shard.metadata)
        if (const gguf::Array* array = gguf::as_array(entry.value)) touch(*array);
      n_entries = shard.metadata.size();
      n_tensors = shard.tensors.size();
      return true;
    } catch (const gguf::MoreBytesNeeded& more) {
      BILLOW_CHECK(more.n_bytes > n && more.n_bytes <= bytes.size());
      // At least doubles the bytes, so that the number of attempts stays small.
      n = std::max(more.n_bytes, std::min<uint64_t>(2 * n, bytes.size()));
    } catch (const Error&) {
      return false;
    }
  }
}

bool reads_whole(std::span<const std::byte> bytes) {
  try {
    gguf::parse_shard(bytes, "fuzz");
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(data, size));
  size_t n_entries = 0;
  size_t n_tensors = 0;
  BILLOW_CHECK(reads_header(bytes, n_entries, n_tensors) == reads_whole(bytes));
  try {
    const gguf::File file = gguf::File::parse(bytes, "fuzz");
    BILLOW_CHECK(file.metadata().size() == n_entries && file.tensors().size() == n_tensors);
    touch(file);
    if (file.alignment() > 4096) return 0;  // padding would dominate the run time
    const std::vector<std::byte> first = written(file);
    const gguf::File again = gguf::File::parse(first, "written");
    BILLOW_CHECK(again.metadata().size() == file.metadata().size());
    BILLOW_CHECK(again.tensors().size() == file.tensors().size());
    BILLOW_CHECK(written(again) == first);
  } catch (const Error&) {  // rejected
  }
  return 0;
}
