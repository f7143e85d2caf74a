#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "gguf/file.h"
#include "vision/embedded_projector.h"

// Parses any bytes as a model's file, follows the projector within it, and makes the data that has
// another form in a projector.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace billow;
  try {
    const gguf::File model = gguf::File::parse(std::as_bytes(std::span(data, size)), "fuzz");
    const vision::EmbeddedProjector projector = vision::embedded_projector(model);
    for (const vision::EmbeddedTensor& tensor : projector.tensors) {
      if (!tensor.make || tensor.source->data.empty()) continue;
      // A tensor is at most as large as its source, whose data is within the input.
      std::vector<std::byte> made(tensor.n_bytes());
      tensor.make(made);
    }
  } catch (const Error&) {
  }
  return 0;
}
