#include "cli/console.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "base/byte_size.h"
#include "base/error.h"
#include "cli/client/progress_text.h"
#include "cli/terminal_line.h"
#include "cli/terminal_text.h"

namespace billow::cli {
namespace {

bool same_place(int one, int other) {
  struct stat a{};
  struct stat b{};
  return ::fstat(one, &a) == 0 && ::fstat(other, &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

}  // namespace

Console::Console(const Options& options)
    : shows_text_(options.text),
      shows_progress_(options.progress && is_smart_terminal(STDERR_FILENO) &&
                      ::isatty(STDOUT_FILENO) == 0),
      colour_(shows_colours(STDERR_FILENO)),
      one_place_(same_place(STDOUT_FILENO, STDERR_FILENO)) {}

Console::~Console() { erase_progress(); }

void Console::text(const std::string& piece) {
  if (!shows_text_ || piece.empty()) return;
  print_text(piece);
  at_line_start_ = piece.ends_with('\n');
}

void Console::event(const std::string& line) {
  erase_progress();
  const bool breaks_line = one_place_ && !at_line_start_;
  std::fprintf(stderr, "%s%s%s%s\n", breaks_line ? "\n" : "", colour_ ? "\033[2m" : "",
               line.c_str(), colour_ ? "\033[0m" : "");
  if (one_place_) at_line_start_ = true;
}

void Console::progress(const Progress& progress) {
  if (!shows_progress_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_progress_) return;
  next_progress_ = now + std::chrono::milliseconds(100);
  const std::string line =
      fmt::format("position {}, ctx{}, {:.1f} tokens/s, KV memory {}", progress.position,
                  progress.rung, progress.rate, format_byte_size(progress.kv_bytes));
  draw_line(cut_to_columns(line, progress_columns()));
  progress_is_shown_ = true;
}

void Console::erase_progress() {
  if (progress_is_shown_) erase_line();
  progress_is_shown_ = false;
}

void print_now(const std::string& text) {
  const bool is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0)
    throw system_error("cannot write", "standard output", errno);
}

void print_text(const std::string& text) {
  print_now(::isatty(STDOUT_FILENO) != 0 ? terminal_text(text) : text);
}

void finish_output() {
  if (std::fflush(stdout) != 0) throw system_error("cannot write", "standard output", errno);
  if (std::ferror(stdout) != 0)
    throw Error(ErrorCode::kIo, "cannot write standard output: an earlier write failed");
}

}  // namespace billow::cli
