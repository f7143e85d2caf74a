// The spelling of bytes in RWKV's vocabulary. It is that of Python's literals: \t, \n, \r, \xHH,
// and a backslash before quotes and backslashes.
#pragma once

#include <charconv>
#include <string>
#include <string_view>

namespace billow::tokenizer {

// Appends the bytes that `text` spells. Text without an escape stays unchanged.
inline void append_unescaped_bytes(std::string_view text, std::string& out) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\\' || at + 1 == text.size()) {
      out.push_back(text[at]);
      continue;
    }
    const char escape = text[++at];
    unsigned byte = 0;
    const char* const digits = text.data() + at + 1;
    if (escape == 'x' && text.size() - at > 2 &&
        std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
      out.push_back(static_cast<char>(byte));
      at += 2;
    } else {
      out.push_back(escape == 't' ? '\t' : escape == 'n' ? '\n' : escape == 'r' ? '\r' : escape);
    }
  }
}

}  // namespace billow::tokenizer
