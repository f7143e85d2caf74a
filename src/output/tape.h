// The text of an answer for its readers: a sequence of bytes with a current position. Readers can
// look ahead, and can go back to an earlier position.
#pragma once

#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "output/event.h"
#include "output/task.h"

namespace billow::output {

// A byte with its place in a control token. The place matters: a marker that is a control token
// differs from the same text in other tokens. Bytes outside of control tokens compare equal to
// characters.
using Unit = char16_t;
using Units = std::u16string;
inline constexpr Unit kTokenStart = 0x100;
inline constexpr Unit kTokenRest = 0x200;
inline constexpr Unit kTooFar = 0xFFFE;  // beyond the limit of held bytes
inline constexpr Unit kEnd = 0xFFFF;     // end of the answer

constexpr bool is_byte(Unit unit) { return unit < kTooFar; }
constexpr char byte_of(Unit unit) { return static_cast<char>(static_cast<unsigned char>(unit)); }
constexpr bool is_blank(Unit unit) { return unit == u' ' || (unit >= u'\t' && unit <= u'\r'); }
constexpr bool is_digit(Unit unit) { return unit >= u'0' && unit <= u'9'; }
constexpr bool is_letter(Unit unit) {
  return (unit >= u'a' && unit <= u'z') || (unit >= u'A' && unit <= u'Z');
}

// Max bytes that are held back while they can become a call.
inline constexpr size_t kMaxHeld = size_t{4} << 20;

class Tape {
 public:
  void append(std::string_view text, Unit first, Unit rest);
  void end(FinishReason reason);
  // Runs the readers until they need more text.
  void run(TaskStack& stack);
  // Frees text before the current position that is not held and not kept.
  void forget();

  size_t position() const { return at_; }
  size_t n_left() const { return begin_ + units_.size() - at_; }  // units after the position
  size_t furthest() const { return furthest_; }  // furthest position that a reader has seen
  void take(size_t n = 1) { at_ += n; }
  // REQUIRES: `position` is held, or not before the current position.
  void seek(size_t position);
  // Returns whether a reader has met the end of a cut-off answer since the last hold().
  bool has_met_cut() const { return has_met_cut_; }
  bool is_cut() const { return is_cut_; }

  // From the outermost hold() to its release(), readers can read at most kMaxHeld bytes.
  void hold();
  void release();

  // keep_from() keeps all text from `position` on, until keep_nothing(). kept() returns the text
  // from there to the current position.
  void keep_from(size_t position) { kept_ = position; }
  void keep_nothing() { kept_ = kNone; }
  Units kept() const { return units_.substr(kept_ - begin_, at_ - kept_); }

  // Waits for the unit `ahead` of the current position. Returns the unit, kEnd or kTooFar.
  auto look(size_t ahead = 0) {
    struct Look {
      Tape& tape;
      size_t position;
      bool await_ready() const { return tape.knows(position); }
      void await_suspend(std::coroutine_handle<>) const { tape.wanted_ = position; }
      Unit await_resume() const { return tape.unit_at(position); }
    };
    return Look{*this, at_ + ahead};
  }

 private:
  bool knows(size_t position) const {
    return is_ended_ || position < begin_ + units_.size() || position >= limit_;
  }
  Unit unit_at(size_t position);

  static constexpr size_t kNone = SIZE_MAX;
  Units units_{};
  size_t begin_ = 0;  // position of the first unit in units_
  size_t at_ = 0;
  size_t wanted_ = kNone;  // position that readers wait for
  size_t furthest_ = 0;
  size_t kept_ = kNone;
  std::vector<size_t> holds_{};
  size_t limit_ = kNone;
  bool is_ended_ = false;
  bool is_cut_ = false;
  bool has_met_cut_ = false;
};

// Texts to find on a tape.
class Literals {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  Literals() = default;
  // Parts of the texts that are in `control` match only control tokens.
  Literals(std::span<const std::string> texts, std::span<const std::string> control);

  bool empty() const { return texts_.empty(); }
  size_t size() const { return texts_.size(); }
  const Units& operator[](size_t i) const { return texts_[i]; }
  bool may_begin(Unit unit) const { return firsts_.find(unit) != Units::npos; }

 private:
  std::vector<Units> texts_{};
  Units firsts_{};
};

// Returns the index of the longest literal that begins `ahead` units after the current position, or
// Literals::kNone.
Task<size_t> find_at(Tape& tape, const Literals& literals, size_t ahead = 0);
// Takes the longest literal at the current position. Returns its index, or Literals::kNone.
Task<size_t> match(Tape& tape, const Literals& literals);
Task<size_t> count_blanks(Tape& tape);
Task<size_t> skip_blanks(Tape& tape);

// Takes a short text, like a name, before one of the literals or one of the units `stops`. Removes
// the blanks around it. Returns nullopt if no end follows within kMaxName bytes.
inline constexpr size_t kMaxName = 1024;
Task<std::optional<std::string>> read_name(Tape& tape, const Literals& ends,
                                           std::u16string_view stops = {});

// Takes the text before one of the literals, or before the end. Removes the blanks at its end.
Task<std::string> take_until(Tape& tape, const Literals& ends);

}  // namespace billow::output
