// Ends the process if the server does not end in time, because a thread may hang in a file system
// that does not answer. Runners end with the process. Owns a thread. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace billow::cli {

class LastResort {
 public:
  LastResort() = default;
  ~LastResort();
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

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
