#include "cli/terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "cli/terminal_text.h"

namespace billow::cli {
namespace {

constexpr const char* kErase = "\r\033[J";  // all rows of the line: nothing is below it

// Writes everything in one call, so that a terminal never shows an erased line.
void put(const std::string& text) {
  std::fputs(text.c_str(), stderr);
  std::fflush(stderr);
}

}  // namespace

bool is_smart_terminal(int stream) {
  const char* terminal = std::getenv("TERM");
  return terminal != nullptr && *terminal != '\0' && std::string_view(terminal) != "dumb" &&
         ::isatty(stream) != 0;
}

bool shows_colours(int stream) {
  const char* no_colour = std::getenv("NO_COLOR");
  return (no_colour == nullptr || *no_colour == '\0') && is_smart_terminal(stream);
}

size_t progress_columns() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
  return size.ws_col - 1u;
}

// Without automatic wrap, the line stays in one row, even if the terminal becomes narrower before
// it shows the line.
void draw_line(const std::string& text) {
  put(std::string(kErase) + "\033[?7l" + terminal_text(text) + "\r\033[?7h");
}

void end_line(const std::string& text) { put(std::string(kErase) + terminal_text(text) + "\n"); }

void erase_line() { put(kErase); }

}  // namespace billow::cli
