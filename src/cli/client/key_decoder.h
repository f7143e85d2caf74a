// Turns the bytes of a terminal into keys and pasted text. A pure state machine: the bytes may be
// cut anywhere, also within a character or a key's sequence, and there is no timer. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {

enum class Key : uint8_t {
  kText,    // a typed character
  kPasted,  // a piece of a paste: its lines end in \n, all else is as it came
  kEnter,
  kNewline,      // Alt-Enter: a line break within the text
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
  kOlder,  // Ctrl-P: the entry of the history before
  kNewer,  // Ctrl-N
  kKillToEnd,
  kKillToStart,
  kKillWordLeft,
  kKillWordRight,
  kYank,
};

struct KeyEvent {
  Key key = Key::kText;
  std::u32string text{};  // of kText and kPasted
  bool operator==(const KeyEvent&) const = default;
};

class KeyDecoder {
 public:
  // The keys that are complete with these bytes. `after_pause`: the terminal sent nothing for a
  // while before them. Within a paste, a Ctrl-C alone after a pause is a key: the user gets out of
  // a paste whose end never came.
  std::vector<KeyEvent> take(std::string_view bytes, bool after_pause);

  // Ctrl-C came as a signal. What is left of a paste is dropped.
  void interrupt();

  bool is_pasting() const noexcept { return paste_ != Paste::kNone; }

 private:
  enum class Paste : uint8_t { kNone, kTaken, kDropped };

  // Bytes taken from the start of `bytes`; 0 where more must come first.
  size_t take_key(std::string_view bytes, std::vector<KeyEvent>& events);
  size_t take_pasted(std::string_view bytes, std::u32string& text);
  size_t take_sequence(std::string_view bytes, std::vector<KeyEvent>& events);

  std::string pending_;  // the beginning of a character or of a sequence
  Paste paste_ = Paste::kNone;
  bool after_return_ = false;  // within a paste: a \n that follows belongs to the \r
};

}  // namespace billow::cli
