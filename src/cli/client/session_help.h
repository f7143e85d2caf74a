// Help texts for the commands of a session. Constants.
#pragma once

#include <string_view>

namespace billow::cli {

// Returns the help on "set", "parameter", "show" or "shortcuts"; for other topics, the help on all
// commands.
std::string_view session_help(std::string_view topic) noexcept;

}  // namespace billow::cli
