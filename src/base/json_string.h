// Strings of JSON that need no library: most that are written token by token. Pure; any thread.
#pragma once

#include <algorithm>
#include <string_view>

namespace billow {

// Whether the text between two quotes is the JSON string of that text: printable ASCII without
// quotes and backslashes.
inline bool is_plain_json_string(std::string_view text) noexcept {
  return std::ranges::all_of(text,
                             [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

}  // namespace billow
