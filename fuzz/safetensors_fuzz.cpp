// Parses any bytes as a safetensors file. The file is rejected with an Error that contains the
// name. Otherwise its tensors are inside the file, one after the other, with the sizes of their
// shapes.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "base/error.h"
#include "convert/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace billow;
  const auto bytes = std::as_bytes(std::span(data, size));
  try {
    // Copies only the header bytes to separate memory, so that reads beyond them are detected.
    const uint64_t n_header = convert::header_end(bytes, size, "fuzz");
    BILLOW_CHECK(n_header <= size);
    const std::vector<std::byte> header(bytes.begin(),
                                        bytes.begin() + static_cast<std::ptrdiff_t>(n_header));
    uint64_t at = n_header;
    for (const convert::SafeTensor& tensor : convert::parse_safetensors(header, size, "fuzz")) {
      BILLOW_CHECK(tensor.begin == at && tensor.n_bytes <= size - at);
      at += tensor.n_bytes;
      uint64_t n_elements = 1;
      for (const uint64_t dimension : tensor.shape) n_elements *= dimension;
      BILLOW_CHECK(n_elements == 0 ? tensor.n_bytes == 0 : tensor.n_bytes % n_elements == 0);
      BILLOW_CHECK(!tensor.dtype.empty());
    }
    BILLOW_CHECK(at == size);
  } catch (const Error& error) {
    BILLOW_CHECK(std::string_view(error.what()).starts_with("fuzz: "));
  }
  return 0;
}
