// Pictures within a prompt. A prompt is a list of parts: its tokens, and between them pictures,
// each of which becomes rows of embeddings beside those of tokens. Plain data.
#pragma once

#include <cstddef>
#include <string>

namespace billow::context {

struct PromptImage {
  size_t at = 0;       // tokens of the prompt before it
  size_t text_at = 0;  // bytes of the prompt's text before it
  // Positions that it takes, with the tokens that mark its beginning and end: PictureRule.
  size_t n_rows = 0;
  std::string png;  // the picture as a PNG file
};

}  // namespace billow::context
