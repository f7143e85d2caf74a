// Published vocabularies, known by how they cut one text into tokens. Constant data; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tokenizer/token.h"

namespace billow::convert {

// The text that is cut: blanks, emoji, digits, several scripts and contractions, so that no two
// rules of cutting give the same tokens.
std::string_view probe_text() noexcept;

// tokenizer.ggml.pre of the vocabulary that cuts probe_text() into `ids`, with the tokens around
// it; nullopt for one that is not known. By the first 64 bits of SHA-256 over the list as Python
// writes it, "[1, 2]".
std::optional<std::string_view> find_known_vocabulary(std::span<const tokenizer::TokenId> ids);

}  // namespace billow::convert
