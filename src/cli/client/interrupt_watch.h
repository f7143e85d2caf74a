// Handles Ctrl-C while a request runs. The first Ctrl-C calls a function, the second one ends the
// program. Use it from the main thread, one watch at a time. The function runs on a thread of the
// watch.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace billow::cli {

// Reads keys from a terminal that does not turn keys into signals.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Returns a file descriptor that is readable when there are keys; -1 if there will be no more
  // keys.
  virtual int descriptor() const noexcept = 0;
  // Takes the available keys. Returns whether Ctrl-C was among them. Runs on the thread of a watch.
  virtual bool take_interrupt() = 0;
};

class InterruptWatch {
 public:
  // Does nothing if SIGINT was ignored at startup.
  explicit InterruptWatch(std::function<void()> on_interrupt);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const noexcept { return interrupted_; }

  // Makes later watches read these keys, too; nullptr: none. REQUIRES: no watch exists.
  static void use_keys(KeySource* keys) noexcept;

 private:
  void watch();
  void interrupt();

  std::function<void()> on_interrupt_;
  std::atomic<bool> interrupted_{false};
  sigset_t before_{};
  int signals_ = -1;  // a signalfd
  int ended_ = -1;    // an eventfd
  std::thread thread_;
};

}  // namespace billow::cli
