// The terminal of a session: its modes, its signals and its size. While a TerminalModes lives, the
// terminal does not echo, gathers no lines and makes no signals of keys, so that what is typed or
// pasted during an answer waits for the editor as it came; pastes are marked. When the program ends
// or is stopped by a signal, the terminal has its own modes again. One at a time, for the main
// thread; suspend() and restore() for any.
#pragma once

#include "cli/client/line_view.h"

namespace billow::cli {

class TerminalModes {
 public:
  // Of standard input. Throws Error (kIo) where that is no terminal.
  TerminalModes();
  ~TerminalModes();
  TerminalModes(const TerminalModes&) = delete;
  TerminalModes& operator=(const TerminalModes&) = delete;

  // While editing, SIGTSTP waits for the editor, which calls suspend(). Else the program stops.
  void edit(bool is_editing) noexcept;
  // Stops the program as Ctrl-Z does; returns when it goes on.
  void suspend();

  struct Signals {
    bool interrupt = false;
    bool stop = false;       // SIGTSTP
    bool continued = false;  // the program was stopped, and others may have written
    bool resized = false;
  };
  // Those that came since the last call.
  Signals signals();
  // Readable when signals came.
  int signal_descriptor() const noexcept;

  static ScreenSize screen_size();
  // Gives the terminal its own modes, if a TerminalModes lives: for code that ends the program at
  // once. Async-signal-safe.
  static void restore() noexcept;
};

}  // namespace billow::cli
