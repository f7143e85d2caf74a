// Log lines on standard error. Any thread may call. BILLOW_LOG=debug|info|warn|error|off sets the
// level (default warn).
#pragma once

#include <string_view>

namespace billow::log {

void debug(std::string_view message);
void info(std::string_view message);
void warn(std::string_view message);

// Only warnings from now on, whatever BILLOW_LOG lets through beside them.
void hide_info();

}  // namespace billow::log
