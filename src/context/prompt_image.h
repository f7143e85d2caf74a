// Pictures within a prompt. A prompt is a list of tokens with pictures between them. Each picture
// becomes rows of embeddings, like the tokens. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace billow::context {

// The id of each token of a picture in a prompt for Billow's own engine.
inline constexpr int32_t kPictureToken = -1;

struct PromptImage {
  size_t at = 0;       // number of prompt tokens before it
  size_t text_at = 0;  // number of bytes of the prompt's text before it
  // Positions that the picture takes in addition to the prompt's tokens, including the tokens that
  // mark its beginning and end (PictureRule). 0 for Billow's own engine.
  size_t n_rows = 0;
  std::string png;  // the picture as a PNG file
};

}  // namespace billow::context
