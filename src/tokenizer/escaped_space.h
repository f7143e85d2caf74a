// The visible space U+2581, which SentencePiece vocabularies use for a space.
#pragma once

#include <string>
#include <string_view>

namespace billow::tokenizer {

inline constexpr std::string_view kEscapedSpace = "\xE2\x96\x81";

// Returns `text` with U+2581 for every space.
inline std::string escape_spaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char byte : text) {
    if (byte == ' ') {
      out += kEscapedSpace;
    } else {
      out.push_back(byte);
    }
  }
  return out;
}

// Appends `text` with a space for every U+2581.
inline void append_unescaped(std::string_view text, std::string& out) {
  while (!text.empty()) {
    const size_t at = text.find(kEscapedSpace);
    out += text.substr(0, at);
    if (at == std::string_view::npos) break;
    out.push_back(' ');
    text.remove_prefix(at + kEscapedSpace.size());
  }
}

}  // namespace billow::tokenizer
