// Shows an answer to the user while it is written. The text goes to standard output; events and a
// progress line go to standard error. Each event and the progress line begin on a new line. Not
// thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

namespace billow::cli {

struct Progress {
  size_t position = 0;  // evaluated tokens in the context
  size_t rung = 0;
  double rate = 0.0;  // tokens/s
  size_t kv_bytes = 0;
};

class Console {
 public:
  struct Options {
    bool text = true;      // show the text
    bool progress = true;  // show a progress line, if only standard error is a terminal
  };
  explicit Console(const Options& options);
  ~Console();  // erases the progress line
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  void text(const std::string& piece);
  void event(const std::string& line);
  // Updates the progress line at most 10 times a second.
  void progress(const Progress& progress);

 private:
  void erase_progress();

  bool shows_text_;
  bool shows_progress_;
  bool colour_;
  bool one_place_;  // standard output and standard error are the same terminal or file
  bool at_line_start_ = true;
  bool progress_is_shown_ = false;
  std::chrono::steady_clock::time_point next_progress_{};
};

// Writes to standard output without buffering. Throws Error if that fails.
void print_now(const std::string& text);
// Writes text of a model or a server like print_now(), but a terminal gets its terminal_text().
void print_text(const std::string& text);
// Writes what the C library still buffers. Throws Error if that fails, or if an earlier write to
// standard output has failed.
void finish_output();

}  // namespace billow::cli
