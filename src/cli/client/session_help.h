// The help of a session's commands. Constants.
#pragma once

#include <string_view>

namespace billow::cli {

// Of "set", "parameter", "show" or "shortcuts"; of all commands for anything else.
std::string_view session_help(std::string_view topic) noexcept;

}  // namespace billow::cli
