// Text as Go's %q writes it, in messages and listings that are compared with Ollama's. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace billow {

// `text` in double quotes as a Go literal.
std::string go_quoted(std::string_view text);

// Whether Go prints the character as it is, by blocks rather than by single characters.
bool is_go_printable(char32_t value) noexcept;

}  // namespace billow
