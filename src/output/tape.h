// The text of an answer as its readers see it: byte after byte, with a place that they are at, a
// view ahead, and the way back to where they have been.
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

// A byte, and where it lies in a control token: markers that are control tokens differ from the
// same text in other tokens. Bytes outside of control tokens compare equal to characters.
using Unit = char16_t;
using Units = std::u16string;
inline constexpr Unit kTokenStart = 0x100;
inline constexpr Unit kTokenRest = 0x200;
inline constexpr Unit kTooFar = 0xFFFE;  // beyond what may be held back
inline constexpr Unit kEnd = 0xFFFF;     // of the answer

constexpr bool is_byte(Unit unit) { return unit < kTooFar; }
constexpr char byte_of(Unit unit) { return static_cast<char>(static_cast<unsigned char>(unit)); }
constexpr bool is_blank(Unit unit) { return unit == u' ' || (unit >= u'\t' && unit <= u'\r'); }
constexpr bool is_digit(Unit unit) { return unit >= u'0' && unit <= u'9'; }
constexpr bool is_letter(Unit unit) {
  return (unit >= u'a' && unit <= u'z') || (unit >= u'A' && unit <= u'Z');
}

// The most that is held back in the hope of a call.
inline constexpr size_t kMaxHeld = size_t{4} << 20;

class Tape {
 public:
  void append(std::string_view text, Unit first, Unit rest);
  void end(FinishReason reason);
  // Runs the readers until they have read all there is.
  void run(TaskStack& stack);
  // Gives up what lies behind, but for what is held.
  void forget();

  size_t position() const { return at_; }
  size_t furthest() const { return furthest_; }  // that anyone has looked
  void take(size_t n = 1) { at_ += n; }
  // REQUIRES: held, or ahead.
  void seek(size_t position);
  // Whether the answer was cut off, and a reader has come to its end since the last hold.
  bool has_met_cut() const { return has_met_cut_; }
  bool is_cut() const { return is_cut_; }

  // From hold() on, at most kMaxHeld bytes can be read until the matching release().
  void hold();
  void release();

  // From `position` on nothing is given up, until keep_nothing(); kept() is what was read since.
  void keep_from(size_t position) { kept_ = position; }
  void keep_nothing() { kept_ = kNone; }
  Units kept() const { return units_.substr(kept_ - begin_, at_ - kept_); }

  // Awaited: the unit that lies `ahead` of the present place, or kEnd or kTooFar.
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
  size_t begin_ = 0;  // the position of the first unit that is kept
  size_t at_ = 0;
  size_t wanted_ = kNone;  // what readers wait for
  size_t furthest_ = 0;
  size_t kept_ = kNone;
  std::vector<size_t> holds_{};
  size_t limit_ = kNone;
  bool is_ended_ = false;
  bool is_cut_ = false;
  bool has_met_cut_ = false;
};

// Texts to be found on a tape.
class Literals {
 public:
  static constexpr size_t kNone = SIZE_MAX;
  Literals() = default;
  // What of them is in `control` counts only as a control token.
  Literals(std::span<const std::string> texts, std::span<const std::string> control);

  bool empty() const { return texts_.empty(); }
  size_t size() const { return texts_.size(); }
  const Units& operator[](size_t i) const { return texts_[i]; }
  bool may_begin(Unit unit) const { return firsts_.find(unit) != Units::npos; }

 private:
  std::vector<Units> texts_{};
  Units firsts_{};
};

// Which of the literals lies `ahead`, the longest of those that do, or Literals::kNone.
Task<size_t> find_at(Tape& tape, const Literals& literals, size_t ahead = 0);
// The same at the present place; takes it.
Task<size_t> match(Tape& tape, const Literals& literals);
Task<size_t> count_blanks(Tape& tape);
Task<size_t> skip_blanks(Tape& tape);

// Takes the short text, as a name, before one of the literals or one of the units `stops`, without
// the blanks around it. nullopt where none of them follows within kMaxName bytes.
inline constexpr size_t kMaxName = 1024;
Task<std::optional<std::string>> read_name(Tape& tape, const Literals& ends,
                                           std::u16string_view stops = {});

// Takes the text before one of the literals, or before the end, without blanks at its end.
Task<std::string> take_until(Tape& tape, const Literals& ends);

}  // namespace billow::output
