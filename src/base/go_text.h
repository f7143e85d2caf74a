// Text in the forms of Go, for messages, listings and settings that must equal Ollama's. Any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow {

// Returns `text` as a Go string literal in double quotes.
std::string go_quoted(std::string_view text);

// Returns the value of a text like "true", "T" or "0", or nullopt for another text.
std::optional<bool> go_bool(std::string_view text) noexcept;

// Returns whether Go prints the character unescaped. Decides by Unicode blocks, not by single
// characters.
bool is_go_printable(char32_t value) noexcept;

}  // namespace billow
