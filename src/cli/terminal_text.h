// Makes text of models and servers safe for a terminal. Pure and thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace billow::cli {

// Returns whether terminals obey the character: C0, DEL or C1.
constexpr bool is_control(char32_t character) {
  return character < 0x20 || (character >= 0x7F && character < 0xA0);
}

// Returns `text` with its control characters as visible symbols, so that no text of a model or a
// server can move the cursor, set the title or write the clipboard: ESC becomes U+241B. Keeps tabs
// and line ends. Drops a carriage return before a line feed. U+FFFD replaces U+0080 to U+009F,
// which have no symbol, and invalid bytes. The result for pieces of a stream does not depend on the
// pieces, if no piece ends inside a character or between "\r" and "\n".
std::string terminal_text(std::string_view text);

}  // namespace billow::cli
