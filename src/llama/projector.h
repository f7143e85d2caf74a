// A projector: the GGUF file ("mmproj") from which llama-server makes rows of embeddings of
// pictures. Only its header is read, and nothing is changed; one thread.
#pragma once

#include <cstdint>
#include <optional>

#include "context/picture_rule.h"
#include "gguf/file.h"

namespace billow::llama {

struct Projector {
  uint64_t weight_bytes = 0;  // as many as the file has
  // An estimate of the buffers in which llama-server encodes a picture. Its log has the true size.
  uint64_t scratch_bytes = 0;
  // Absent: it hears and does not see. A projector of a kind that is not known here counts as one
  // that keeps the shape of a picture, up to 4,096 rows: llama-server says how many there were.
  std::optional<context::PictureRule> pictures{};
};

// Throws Error (kInvalidInput) for a file that is no projector.
Projector projector_of(const gguf::File& file);

}  // namespace billow::llama
