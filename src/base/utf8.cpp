#include "base/utf8.h"

#include <algorithm>

namespace billow::utf8 {
namespace {

bool is_continuation(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

// Returns the number of bytes of a character that begins with `lead`, or 0 if no character does.
size_t sequence_length(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return 2;
  if (lead >= 0xE0 && lead <= 0xEF) return 3;
  if (lead >= 0xF0 && lead <= 0xF4) return 4;
  return 0;
}

// Returns whether `second` may follow `lead`. Excludes overlong forms, surrogates and values beyond
// U+10FFFF.
bool second_is_valid(uint8_t lead, uint8_t second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second < 0xA0;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second < 0x90;
  return true;
}

}  // namespace

CodePoint decode(std::string_view text) noexcept {
  constexpr CodePoint kInvalid{0xFFFD, 1, false};
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t n = sequence_length(lead);
  if (n == 1) return {lead, 1, true};
  if (n == 0 || n > text.size()) return kInvalid;
  if (!second_is_valid(lead, static_cast<uint8_t>(text[1]))) return kInvalid;
  char32_t value = lead & (0x7Fu >> n);
  for (size_t i = 1; i < n; ++i) {
    if (!is_continuation(text[i])) return kInvalid;
    value = (value << 6) | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  }
  return {value, static_cast<uint8_t>(n), true};
}

void append(std::string& out, char32_t value) {
  const auto byte = [&out](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (value < 0x80) {
    byte(value);
  } else if (value < 0x800) {
    byte(0xC0 | (value >> 6));
    byte(0x80 | (value & 0x3F));
  } else if (value < 0x10000) {
    byte(0xE0 | (value >> 12));
    byte(0x80 | ((value >> 6) & 0x3F));
    byte(0x80 | (value & 0x3F));
  } else {
    byte(0xF0 | (value >> 18));
    byte(0x80 | ((value >> 12) & 0x3F));
    byte(0x80 | ((value >> 6) & 0x3F));
    byte(0x80 | (value & 0x3F));
  }
}

size_t whole_length(std::string_view text) noexcept {
  // Only the last three bytes can belong to an incomplete character.
  for (size_t back = 1; back <= std::min<size_t>(3, text.size()); ++back) {
    const size_t at = text.size() - back;
    if (is_continuation(text[at])) continue;
    const auto lead = static_cast<uint8_t>(text[at]);
    if (sequence_length(lead) <= back) break;
    if (back >= 2 && !second_is_valid(lead, static_cast<uint8_t>(text[at + 1]))) break;
    return at;
  }
  return text.size();
}

bool is_valid(std::string_view text) noexcept {
  while (!text.empty()) {
    const CodePoint point = decode(text);
    if (!point.valid) return false;
    text.remove_prefix(point.n_bytes);
  }
  return true;
}

std::string sanitized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint point = decode(text);
    append(out, point.value);
    text.remove_prefix(point.n_bytes);
  }
  return out;
}

}  // namespace billow::utf8
