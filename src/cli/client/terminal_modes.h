// The terminal of a session: its modes, its signals and its size. While a TerminalModes exists, the
// terminal does not echo, buffer lines or turn keys into signals. So text that is typed or pasted
// during an answer waits unchanged for the editor. The terminal marks pastes. If a signal ends or
// stops the program, the terminal's previous modes are restored. Only one TerminalModes may exist
// at a time. Use it from the main thread; any thread may call suspend() and restore().
#pragma once

#include "cli/client/line_view.h"

namespace billow::cli {

class TerminalModes {
 public:
  // Changes the terminal of standard input. Throws Error (kIo) if it is not a terminal.
  TerminalModes();
  ~TerminalModes();
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  // While editing, SIGTSTP is only recorded, and the editor calls suspend(). Otherwise SIGTSTP
  // stops the program.
  void edit(bool is_editing) noexcept;
  // Stops the program like Ctrl-Z. Returns when the program continues.
  void suspend();

  struct Signals {
    bool interrupt = false;
    bool stop = false;       // SIGTSTP
    bool continued = false;  // the program was stopped; others may have written to the terminal
    bool resized = false;
  };
  // Returns the signals since the last call.
  Signals signals();
  // Returns a file descriptor that is readable when signals came.
  int signal_descriptor() const noexcept;

  static ScreenSize screen_size();
  // Restores the terminal's previous modes, if a TerminalModes exists. For code that ends the
  // program immediately. Async-signal-safe.
  static void restore() noexcept;
};

}  // namespace billow::cli
