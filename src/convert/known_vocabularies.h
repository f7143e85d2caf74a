// Published vocabularies, recognised by their tokens for one text. Constant data, thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tokenizer/token.h"

namespace billow::convert {

// Returns the probe text. It has blanks, emoji, digits, several scripts and contractions, so that
// different splitting rules give different tokens.
std::string_view probe_text() noexcept;

// Returns tokenizer.ggml.pre of the published vocabulary that splits probe_text() into `ids`. `ids`
// includes the tokens that begin and end a text. Returns nullopt for an unknown vocabulary. The
// lookup key is the first 64 bits of SHA-256 over the list in Python's notation, "[1, 2]".
std::optional<std::string_view> find_known_vocabulary(std::span<const tokenizer::TokenId> ids);

}  // namespace billow::convert
