// Shows on standard error what a command does. On a terminal, it is one line with a spinner that is
// updated; elsewhere, one line for each new step. A line is never wider than the terminal, also
// after a resize. Owns a thread for the spinner. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cli/client/progress_text.h"

namespace billow::cli {

class StatusLine {
 public:
  StatusLine();
  ~StatusLine();  // keeps the line on the screen, without its spinner
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Shows the current step; the line of the previous step stays on the screen. An empty step is
  // only a spinner, and only on a terminal.
  void show(const std::string& step);
  // Shows the current step with its progress.
  void show(const std::string& step, uint64_t done, uint64_t total);
  // Erases the line.
  void erase();
  // Keeps the line, without its spinner, and goes to the next line.
  void finish();

 private:
  void turn();
  void begin(const std::string& step);
  std::string line(bool with_spinner);

  bool is_terminal_;
  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::string step_;
  std::optional<TransferProgress> progress_;
  RateMeter rate_;
  bool is_shown_ = false;
  bool ended_ = false;
  size_t frame_ = 0;
  std::thread thread_;
};

}  // namespace billow::cli
