// UTF-8, byte by byte: decoding that never fails, and the cut that keeps a stream whole.
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

// The code point at the start of `text`. REQUIRES: !text.empty(). Overlong forms, surrogates and
// values beyond U+10FFFF are invalid.
CodePoint decode(std::string_view text) noexcept;

// Appends the UTF-8 form of `value`.
void append(std::string& out, char32_t value);

// The length of the longest prefix of `text` that does not end inside a character. Bytes that can
// never become a character count as whole, so that a stream of them is not held back for ever.
size_t whole_length(std::string_view text) noexcept;

bool is_valid(std::string_view text) noexcept;

// A copy in which each invalid byte is U+FFFD.
std::string sanitized(std::string_view text);

}  // namespace billow::utf8
