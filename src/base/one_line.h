// What comes from outside, as a part of a message. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow {

// The beginning of a text, of about `max_bytes` at most, as one line of valid UTF-8: blanks stand
// for control characters, and none at its ends.
std::string one_line(std::string_view text, size_t max_bytes);

}  // namespace billow
