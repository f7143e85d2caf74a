// Writes log lines to standard error. Thread-safe. BILLOW_LOG=debug|info|warn|error|off sets the
// level (default warn). A wrong value causes a warning, and the default is used.
#pragma once

#include <string>
#include <string_view>

namespace billow::log {

void debug(std::string_view message);
void info(std::string_view message);
void warn(std::string_view message);

// Configures the log of a server: each line begins with the time, and the level is info, or debug
// if `debug` is set. BILLOW_LOG overrides the level.
void for_a_server(bool debug);

// Sets the level to info, unless BILLOW_LOG is set. For a process whose lines a server forwards.
void show_info();

// Returns what is wrong with BILLOW_LOG; empty: nothing.
std::string level_fault();

// Hides lines below level warn, even if BILLOW_LOG allows them.
void hide_info();

}  // namespace billow::log
