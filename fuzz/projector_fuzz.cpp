#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "gguf/file.h"
#include "llama/projector.h"

// Parses any bytes as the header of a projector, and calculates its rows and memory.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace billow;
  try {
    const gguf::File file = gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
    const llama::Projector projector = llama::projector_of(file);
    if (projector.pictures)
      for (const uint64_t edge : {uint64_t{1}, uint64_t{1000}, uint64_t{1} << 32})
        context::max_rows(*projector.pictures, edge, 1000);
  } catch (const Error&) {
  }
  return 0;
}
