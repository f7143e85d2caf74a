// Byte-wise text functions. Only ASCII letters and blanks count; the locale has no effect. Any
// thread.
#pragma once

#include <string>
#include <string_view>

namespace billow {

inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

std::string lower_case(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b) noexcept;

// Returns `text` without the bytes of `what` at both ends.
std::string_view trimmed(std::string_view text, std::string_view what = kBlanks) noexcept;

}  // namespace billow
