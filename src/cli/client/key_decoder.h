// Decodes the bytes of a terminal into keys and pasted text. A pure state machine without a timer.
// The bytes may be split anywhere, even within a character or a key's sequence. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

enum class Key : uint8_t {
  kText,    // a typed character
  kPasted,  // a piece of a paste: lines end in \n, other bytes are unchanged
  kEnter,
  kNewline,      // Alt-Enter: a line break in the text
  kInterrupt,    // Ctrl-C
  kEndOrDelete,  // Ctrl-D
  kSuspend,      // Ctrl-Z
  kClearScreen,
  kBackspace,
  kDelete,
  kLeft,
  kRight,
  kUp,
  kDown,
  kHome,
  kEnd,
  kWordLeft,
  kWordRight,
  kOlder,  // Ctrl-P: the previous history entry
  kNewer,  // Ctrl-N: the next history entry
  kKillToEnd,
  kKillToStart,
  kKillWordLeft,
  kKillWordRight,
  kYank,
};

struct KeyEvent {
  Key key = Key::kText;
  std::u32string text{};  // for kText and kPasted
  bool operator==(const KeyEvent&) const = default;
};

class KeyDecoder {
 public:
  // Returns the keys that these bytes complete. `after_pause`: the terminal sent nothing for a
  // while before these bytes. In a paste, a single Ctrl-C after a pause is a key, so that the user
  // can leave a paste whose end never came.
  std::vector<KeyEvent> take(std::string_view bytes, bool after_pause);

  // Handles a Ctrl-C that came as a signal: drops the rest of a paste.
  void interrupt();

  bool is_pasting() const noexcept { return paste_ != Paste::kNone; }

 private:
  enum class Paste : uint8_t { kNone, kTaken, kDropped };

  // These functions return the number of bytes that they take from `bytes`; 0 if more bytes are
  // needed.
  size_t take_key(std::string_view bytes, std::vector<KeyEvent>& events);
  size_t take_pasted(std::string_view bytes, std::u32string& text);
  size_t take_sequence(std::string_view bytes, std::vector<KeyEvent>& events);

  std::string pending_;  // the beginning of a character or of a sequence
  Paste paste_ = Paste::kNone;
  bool after_return_ = false;  // in a paste: the last byte was \r, a following \n belongs to it
};

}  // namespace billow::cli
