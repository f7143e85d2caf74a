// Text in the form of Go's %q, for messages and listings that must equal Ollama's. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace billow {

// Returns `text` as a Go string literal in double quotes.
std::string go_quoted(std::string_view text);

// Returns whether Go prints the character unescaped. Decides by Unicode blocks, not by single
// characters.
bool is_go_printable(char32_t value) noexcept;

}  // namespace billow
