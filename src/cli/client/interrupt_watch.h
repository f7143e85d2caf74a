// Ctrl-C while a request runs: calls a function instead of ending the program; a second one ends
// it. For the main thread, one at a time; the function is called on a thread of the watch.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace billow::cli {

class InterruptWatch {
 public:
  // Where the program was started to ignore Ctrl-C, nothing is watched.
  explicit InterruptWatch(std::function<void()> on_interrupt);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const noexcept { return interrupted_; }

 private:
  void watch();

  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_{false};
  sigset_t before_{};
  int signals_ = -1;  // a signalfd
  int ended_ = -1;    // an eventfd
  std::thread thread_;
};

}  // namespace billow::cli
