// The end of `billow serve`: its signals, and a limit of the time that the end takes.
#pragma once

#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace billow::cli {

// Blocks SIGINT and SIGTERM in this thread and in the threads that it starts, and waits for them.
class Signals {
 public:
  Signals();
  // Returns whether a signal comes within `time`. Any thread.
  bool wait_for(std::chrono::milliseconds time) const;

 private:
  sigset_t set_{};
};

// Ends the process if the server does not end in time, because a thread may hang in a file system
// that does not answer. Runners end with the process. Any thread.
class LastResort {
 public:
  ~LastResort();
  // Restarts the countdown.
  void arm(std::chrono::milliseconds left);

 private:
  void watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  std::chrono::steady_clock::time_point until_;
  std::jthread watch_;
};

}  // namespace billow::cli
