// Tokens as people and programs write and read them on the command line. Pure; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"

namespace billow::cli {

// Appends the ids of `words`, which spaces, commas or line ends separate; so `[1, 2]` works too.
// Throws Error (kInvalidInput) for a word that is no id of the vocabulary.
void append_token_ids(std::string_view words, const tokenizer::Tokenizer& tokenizer,
                      std::vector<tokenizer::TokenId>& ids);

// `bytes` on one line: control characters and what is not UTF-8 are escaped.
std::string visible_text(std::string_view bytes);

// A string if the piece is whole UTF-8, else an array of its bytes.
Json json_piece(std::string_view piece);

}  // namespace billow::cli
