#include "base/go_text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/utf8.h"

namespace billow {
namespace {

// Ranges of control, format, space, private and unassigned characters of Unicode.
constexpr std::array<std::pair<char32_t, char32_t>, 18> kUnprintable{{
    {0x00, 0x1F},
    {0x7F, 0xA0},
    {0xAD, 0xAD},
    {0x600, 0x605},
    {0x61C, 0x61C},
    {0x6DD, 0x6DD},
    {0x70F, 0x70F},
    {0x1680, 0x1680},
    {0x180E, 0x180E},
    {0x2000, 0x200F},
    {0x2028, 0x202F},
    {0x205F, 0x206F},
    {0x3000, 0x3000},
    {0xD800, 0xF8FF},
    {0xFEFF, 0xFEFF},
    {0xFFF0, 0xFFFB},
    {0xFFFE, 0xFFFF},
    {0xE0000, 0x10FFFF},
}};

void append_hex(std::string& out, char32_t value, int n_digits) {
  for (int shift = 4 * (n_digits - 1); shift >= 0; shift -= 4) {
    out += "0123456789abcdef"[value >> shift & 15];
  }
}

void append_quoted(std::string& out, const utf8::CodePoint& point) {
  constexpr std::string_view kEscaped = "\a\b\f\n\r\t\v\\\"";
  constexpr std::string_view kLetters = "abfnrtv\\\"";
  const size_t at =
      point.value < 0x80 ? kEscaped.find(static_cast<char>(point.value)) : kEscaped.npos;
  if (at != kEscaped.npos) {
    out += '\\';
    out += kLetters[at];
  } else if (is_go_printable(point.value)) {
    utf8::append(out, point.value);
  } else if (point.value < 0x80) {
    append_hex(out += "\\x", point.value, 2);
  } else if (point.value < 0x10000) {
    append_hex(out += "\\u", point.value, 4);
  } else {
    append_hex(out += "\\U", point.value, 8);
  }
}

}  // namespace

bool is_go_printable(char32_t value) noexcept {
  return std::none_of(kUnprintable.begin(), kUnprintable.end(), [&](const auto& block) {
    return value >= block.first && value <= block.second;
  });
}

std::string go_quoted(std::string_view text) {
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const utf8::CodePoint point = utf8::decode(text.substr(at));
    if (point.valid) {
      append_quoted(out, point);
    } else {
      append_hex(out += "\\x", static_cast<unsigned char>(text[at]), 2);
    }
    at += point.n_bytes;
  }
  return out + "\"";
}

std::optional<bool> go_bool(std::string_view text) noexcept {
  constexpr std::array<std::string_view, 6> kYes = {"1", "t", "T", "true", "TRUE", "True"};
  constexpr std::array<std::string_view, 6> kNo = {"0", "f", "F", "false", "FALSE", "False"};
  if (std::ranges::find(kYes, text) != kYes.end()) return true;
  if (std::ranges::find(kNo, text) != kNo.end()) return false;
  return std::nullopt;
}

}  // namespace billow
