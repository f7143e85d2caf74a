// Any bytes as a safetensors file: refused with an Error that names it, or its tensors lie within
// the bytes, one behind the other, each as large as its shape says.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/error.h"
#include "convert/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace billow;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    const std::byte* at = nullptr;
    for (const convert::SafeTensor& tensor : convert::parse_safetensors(bytes, "fuzz")) {
      BILLOW_CHECK(tensor.data.data() >= bytes.data());
      BILLOW_CHECK(tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
      BILLOW_CHECK(at == nullptr || tensor.data.data() == at);
      at = tensor.data.data() + tensor.data.size();
      uint64_t n_elements = 1;
      for (const uint64_t dimension : tensor.shape) n_elements *= dimension;
      BILLOW_CHECK(n_elements == 0 ? tensor.data.empty() : tensor.data.size() % n_elements == 0);
      BILLOW_CHECK(!tensor.dtype.empty());
    }
  } catch (const Error& error) {
    BILLOW_CHECK(std::string_view(error.what()).starts_with("fuzz: "));
  }
  return 0;
}
