// Ctrl-C while a request runs: calls a function instead of ending the program; a second one ends
// it. For the main thread, one at a time; the function is called on a thread of the watch.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace billow::cli {

// A terminal that makes no signals of keys: where Ctrl-C comes from then.
class KeySource {
 public:
  virtual ~KeySource() = default;
  // Readable when keys came; -1 when none will come.
  virtual int descriptor() const noexcept = 0;
  // Takes the keys that came; whether Ctrl-C was among them. Called by the thread of a watch.
  virtual bool take_interrupt() = 0;
};

class InterruptWatch {
 public:
  // Where the program was started to ignore Ctrl-C, nothing is watched.
  explicit InterruptWatch(std::function<void()> on_interrupt);
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  bool interrupted() const noexcept { return interrupted_; }

  // The keys that every watch from now on watches, too; nullptr: none. Not while a watch lives.
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
