// Ctrl-C and SIGTERM while an answer is written: the first is noted, so that the answer can end in
// order; a second one ends the program at once. One Interrupt at a time; for the main thread.
#pragma once

#include <csignal>

namespace billow::cli {

class Interrupt {
 public:
  // From here on signals are noted. A signal that the program was started to ignore stays ignored.
  Interrupt();
  // The signals do again what they did before.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // The signal that has come, or 0.
  int signal() const noexcept;

 private:
  struct sigaction on_interrupt_{};
  struct sigaction on_terminate_{};
};

// What a program that a signal has ended exits with.
inline constexpr int exit_status_of(int signal) { return 128 + signal; }

}  // namespace billow::cli
