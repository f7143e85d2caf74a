// A projector: the GGUF file ("mmproj") with which llama-server turns pictures into rows of
// embeddings. Only reads the header of the file. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>

#include "context/picture_rule.h"
#include "gguf/file.h"

namespace billow::llama {

struct Projector {
  uint64_t weight_bytes = 0;  // the size of the file
  // Estimate of llama-server's buffers for encoding a picture. Its log has the true size.
  uint64_t scratch_bytes = 0;
  // Absent if the projector has audio but no vision. An unknown kind counts as one that keeps the
  // shape of a picture, up to 4,096 rows. llama-server reports the true number of rows.
  std::optional<context::PictureRule> pictures{};
};

// Throws Error (kInvalidInput) for a file that is not a projector.
Projector projector_of(const gguf::File& file);

}  // namespace billow::llama
