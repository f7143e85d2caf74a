// Converts tokens from and to text on the command line. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {

// Parses ids that are separated by spaces, commas, brackets or line ends, and appends them to
// `ids`. So `[1, 2]` works, too. Throws Error (kInvalidInput) for a word that is not an id of the
// vocabulary.
void append_token_ids(std::string_view words, const tokenizer::Tokenizer& tokenizer,
                      std::vector<tokenizer::TokenId>& ids);

// Returns `bytes` on one line, with control characters and invalid UTF-8 escaped.
std::string visible_text(std::string_view bytes);

// Returns a string if the piece is valid UTF-8, else an array of its bytes.
Json json_piece(std::string_view piece);

}  // namespace billow::cli
