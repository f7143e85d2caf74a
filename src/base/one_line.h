// Makes external text safe as a part of a message. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace billow {

// Returns the beginning of a text, about `max_bytes` at most, as one line of valid UTF-8. Spaces
// replace control characters; both ends are trimmed.
std::string one_line(std::string_view text, size_t max_bytes);

}  // namespace billow
