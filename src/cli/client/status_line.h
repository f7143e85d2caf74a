// What a command does, on standard error: on a terminal one line that changes and turns a spinner,
// elsewhere a line for each new step. A line is never wider than the terminal. Owns the thread that
// turns it; for one thread.
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
  ~StatusLine();  // what is shown stays, without its spinner
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // The step in progress; the one before is left standing. An empty one is a spinner alone, which
  // only a terminal gets.
  void show(const std::string& step);
  // The same with how far it is.
  void show(const std::string& step, uint64_t done, uint64_t total);
  // Takes the line away.
  void erase();
  // Leaves it standing, without its spinner, and goes to the next line.
  void finish();

 private:
  void turn();
  void begin(const std::string& step);
  void draw(bool with_spinner);

  bool is_terminal_;
  std::mutex mutex_;  // guards what follows
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
