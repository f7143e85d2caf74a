// UTF-8 decoding that never fails, and a way to cut a stream between characters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace billow::utf8 {

struct CodePoint {
  char32_t value;   // U+FFFD for an invalid sequence
  uint8_t n_bytes;  // bytes consumed; 1 for an invalid sequence
  bool valid;
};

// Returns the code point at the start of `text`. Overlong forms, surrogates and values beyond
// U+10FFFF are invalid. REQUIRES: !text.empty().
CodePoint decode(std::string_view text) noexcept;

// Appends the UTF-8 form of `value`.
void append(std::string& out, char32_t value);

// Returns the length of the longest prefix of `text` that does not end inside a character. Bytes
// that can never become a character count as complete, so that a stream never holds them back.
size_t whole_length(std::string_view text) noexcept;

bool is_valid(std::string_view text) noexcept;

// Returns a copy in which U+FFFD replaces each invalid byte.
std::string sanitized(std::string_view text);

}  // namespace billow::utf8
