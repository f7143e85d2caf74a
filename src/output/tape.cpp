#include "output/tape.h"

#include <algorithm>

#include "base/check.h"
#include "base/text.h"

namespace billow::output {

void Tape::append(std::string_view text, Unit first, Unit rest) {
  for (size_t i = 0; i < text.size(); ++i) {
    const Unit place = i == 0 ? first : rest;
    units_ += static_cast<Unit>(static_cast<unsigned char>(text[i]) | place);
  }
}

void Tape::end(FinishReason reason) {
  is_ended_ = true;
  is_cut_ = reason == FinishReason::kLength;
}

void Tape::run(TaskStack& stack) {
  while (!stack.empty() && (wanted_ == kNone || knows(wanted_))) {
    wanted_ = kNone;
    stack.back().resume();
  }
}

void Tape::forget() {
  const size_t held = holds_.empty() ? at_ : std::min(at_, holds_.front());
  const size_t first = std::min(held, kept_);
  units_.erase(0, first - begin_);
  begin_ = first;
}

void Tape::seek(size_t position) {
  BILLOW_CHECK(position >= begin_);
  at_ = position;
}

void Tape::hold() {
  if (holds_.empty()) limit_ = at_ + kMaxHeld;
  holds_.push_back(at_);
  has_met_cut_ = false;
}

void Tape::release() {
  holds_.pop_back();
  if (holds_.empty()) limit_ = kNone;
}

Unit Tape::unit_at(size_t position) {
  if (position >= limit_) return kTooFar;
  if (position < begin_ + units_.size()) {
    furthest_ = std::max(furthest_, position);
    return units_[position - begin_];
  }
  has_met_cut_ = is_cut_;
  return kEnd;
}

Literals::Literals(std::span<const std::string> texts, std::span<const std::string> control) {
  for (const std::string& text : texts) {
    Units units;
    for (size_t i = 0; i < text.size();) {
      const std::string_view rest = std::string_view(text).substr(i);
      size_t n_token = 0;
      for (const std::string& token : control)
        if (rest.starts_with(token)) n_token = std::max(n_token, token.size());
      for (size_t k = 0; k < std::max<size_t>(n_token, 1); ++k) {
        const Unit place = n_token == 0 ? Unit{0} : k == 0 ? kTokenStart : kTokenRest;
        units += static_cast<Unit>(static_cast<unsigned char>(rest[k]) | place);
      }
      i += std::max<size_t>(n_token, 1);
    }
    if (units.empty()) continue;
    firsts_ += units.front();
    texts_.push_back(std::move(units));
  }
}

Task<size_t> find_at(Tape& tape, const Literals& literals, size_t ahead) {
  std::vector<size_t> alive(literals.size());
  for (size_t i = 0; i < alive.size(); ++i) alive[i] = i;
  size_t found = Literals::kNone;
  for (size_t n = 0; !alive.empty(); ++n) {
    const Unit unit = co_await tape.look(ahead + n);
    std::erase_if(alive, [&](size_t i) { return literals[i][n] != unit; });
    std::erase_if(alive, [&](size_t i) {
      const bool is_whole = literals[i].size() == n + 1;
      if (is_whole) found = i;
      return is_whole;
    });
  }
  co_return found;
}

Task<size_t> match(Tape& tape, const Literals& literals) {
  if (!literals.may_begin(co_await tape.look())) co_return Literals::kNone;
  const size_t found = co_await find_at(tape, literals);
  if (found != Literals::kNone) tape.take(literals[found].size());
  co_return found;
}

Task<size_t> count_blanks(Tape& tape) {
  size_t n = 0;
  while (is_blank(co_await tape.look(n))) ++n;
  co_return n;
}

Task<size_t> skip_blanks(Tape& tape) {
  size_t n = 0;
  for (; is_blank(co_await tape.look()); ++n) tape.take();
  co_return n;
}

Task<std::optional<std::string>> read_name(Tape& tape, const Literals& ends,
                                           std::u16string_view stops) {
  std::string text;
  for (;;) {
    const Unit unit = co_await tape.look();
    if (stops.find(unit) != stops.npos) break;
    if (ends.may_begin(unit)) {
      const size_t end = co_await find_at(tape, ends);
      if (end != Literals::kNone) break;
    }
    if (!is_byte(unit) || text.size() == kMaxName) co_return std::nullopt;
    text += byte_of(unit);
    tape.take();
  }
  co_return std::string(trimmed(text));
}

Task<std::string> take_until(Tape& tape, const Literals& ends) {
  std::string text;
  for (;;) {
    const Unit unit = co_await tape.look();
    if (!is_byte(unit)) break;
    if (ends.may_begin(unit)) {
      const size_t end = co_await find_at(tape, ends);
      if (end != Literals::kNone) break;
    }
    text += byte_of(unit);
    tape.take();
  }
  text.resize(text.find_last_not_of(kBlanks) + 1);
  co_return text;
}

}  // namespace billow::output
