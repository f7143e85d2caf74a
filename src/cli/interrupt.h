// Handles Ctrl-C, SIGTERM and SIGHUP (a closed terminal) while a command works. The first signal is
// recorded, so that the command can end cleanly. A second signal ends the program immediately. Only
// one Interrupt may exist at a time. Use it from the main thread.
#pragma once

#include <csignal>

namespace billow::cli {

class Interrupt {
 public:
  // Starts to record signals. A signal that was ignored at startup stays ignored. A signal that
  // record() has recorded before stays recorded.
  Interrupt();
  // Restores the previous signal handlers and forgets the signal.
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  // Returns the recorded signal, or 0.
  int signal() const noexcept;
  // Records a signal, for example for a key that is not turned into a signal; 0 forgets it. Any
  // thread.
  static void record(int signal) noexcept;

 private:
  struct sigaction on_interrupt_{};
  struct sigaction on_terminate_{};
  struct sigaction on_hangup_{};
};

// Exit status of a program that a signal has ended.
inline constexpr int exit_status_of(int signal) { return 128 + signal; }

}  // namespace billow::cli
