// Log lines on standard error. Any thread may call. BILLOW_LOG=debug|info|warn|error|off sets the
// level (default warn).
#pragma once

#include <string_view>

namespace billow::log {

void debug(std::string_view message);
void info(std::string_view message);
void warn(std::string_view message);

// For a program that runs long: lines of level info, too (debug, if that is asked for), unless
// BILLOW_LOG says otherwise, and the time in front of each.
void for_a_server(bool debug);

// Lines of level info, too, unless BILLOW_LOG says otherwise: for a process whose lines a server
// passes on.
void show_info();

// Only warnings from now on, whatever BILLOW_LOG lets through beside them.
void hide_info();

}  // namespace billow::log
