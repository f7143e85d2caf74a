// Helpers for simple JSON strings, without the JSON library. Most strings that are written token by
// token are simple. Pure; any thread.
#pragma once

#include <algorithm>
#include <string_view>

namespace billow {

// Returns whether `text` needs no escapes as a JSON string: printable ASCII without quotes and
// backslashes.
inline bool is_plain_json_string(std::string_view text) noexcept {
  return std::ranges::all_of(text,
                             [](char c) { return c >= ' ' && c < 0x7f && c != '"' && c != '\\'; });
}

}  // namespace billow
