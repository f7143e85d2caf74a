// Reads calls in Python's syntax: f(a=1, b="x"), in a list or one per line.
#include <optional>
#include <string>
#include <string_view>

#include "output/json_copy.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

bool is_name(Unit unit) {
  return is_letter(unit) || is_digit(unit) || unit == u'_' || unit == u'.' || unit == u'-';
}

class PythonReader final : public CallReader {
 public:
  PythonReader(const PythonCalls& form, Answer& answer)
      : form_(form), answer_(answer), tape_(answer.tape), closers_(form.close, answer.control) {}

  const std::vector<std::string>& openers() const override { return form_.open; }
  const Literals& closers() const override { return closers_; }
  bool may_begin(Unit unit) const override { return unit == u'['; }

  Task<Found> read(size_t) override {
    Attempt all(answer_, Attempt::Kind::kLoose);
    co_await skip_blanks(tape_);
    const bool has_bracket = co_await tape_.look() == u'[';
    if (form_.in_list && !has_bracket) {
      all.refuse();
      co_return Found::kNothing;
    }
    if (form_.echoes) tape_.keep_from(tape_.position());
    const Found found = co_await read_list(has_bracket);
    if (form_.echoes) list_ = tape_.kept();
    tape_.keep_nothing();
    if (found == Found::kNothing)
      all.refuse();
    else
      all.accept();
    if (form_.echoes && found == Found::kCalls) co_await take_echo();
    co_return found;
  }

 private:
  bool is_bare() const { return form_.open.empty(); }

  Task<Found> read_list(bool has_bracket) {
    if (has_bracket) tape_.take();
    Found all = Found::kNothing;
    for (;;) {
      for (Unit unit = co_await tape_.look();
           is_blank(unit) || unit == u',' || (unit == u';' && !has_bracket);
           unit = co_await tape_.look()) {
        tape_.take();
      }
      const Unit unit = co_await tape_.look();
      if (has_bracket && unit == u']') {
        tape_.take();
        co_return all;
      }
      const Found one = is_letter(unit) || unit == u'_' ? co_await read_one() : Found::kNothing;
      if (one == Found::kBroken) co_return one;
      if (one == Found::kNothing) {
        // Only the bracket is missing, or the list is not a list of calls.
        co_return is_bare() ? Found::kNothing : all;
      }
      all = one;
    }
  }

  Task<Found> read_one() {
    Attempt attempt(answer_, Attempt::Kind::kLoose);
    CallWriter call(answer_);
    const bool is_call = co_await read_call(call);
    if (is_call && call.end()) {
      attempt.accept();
      co_return Found::kCalls;
    }
    co_return give_up(answer_, call, attempt);
  }

  Task<bool> read_call(CallWriter& call) {
    std::string name = co_await take_name();
    constexpr std::string_view kMethod = ".call";
    if (form_.is_method) {
      if (!name.ends_with(kMethod)) co_return false;
      name.resize(name.size() - kMethod.size());
    }
    co_await skip_blanks(tape_);
    if (co_await tape_.look() != u'(' || !call.name(name)) co_return false;
    do {
      tape_.take();
      co_await skip_blanks(tape_);
      if (co_await tape_.look() == u')') break;
      const bool has_argument = co_await read_argument(call);
      if (!has_argument) co_return false;
      co_await skip_blanks(tape_);
    } while (co_await tape_.look() == u',');
    if (co_await tape_.look() != u')') co_return false;
    tape_.take();
    call.end_keys();
    co_return true;
  }

  Task<bool> read_argument(CallWriter& call) {
    const std::string key = co_await take_name();
    co_await skip_blanks(tape_);
    if (key.empty() || co_await tape_.look() != u'=') co_return false;
    tape_.take();
    co_await skip_blanks(tape_);
    call.key(key);
    co_return co_await copy_json(tape_, call, no_closers_);
  }

  Task<std::string> take_name() {
    std::string name;
    for (;;) {
      const Unit unit = co_await tape_.look();
      if (!is_name(unit) || name.size() == kMaxName) co_return name;
      name += byte_of(unit);
      tape_.take();
    }
  }

  // Takes a copy of the list after the closer. The copy is text without new information.
  Task<bool> take_echo() {
    const size_t closer = co_await match(tape_, closers_);
    if (closer == Literals::kNone) co_return false;
    const size_t n = co_await count_blanks(tape_);
    for (size_t i = 0; i < list_.size(); ++i) {
      if (co_await tape_.look(n + i) != list_[i]) co_return false;
    }
    tape_.take(n + list_.size());
    co_return true;
  }

  const PythonCalls& form_;
  Answer& answer_;
  Tape& tape_;
  const Literals closers_;
  const Literals no_closers_{};
  Units list_{};  // the list as it was read
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const PythonCalls& form, Answer& answer) {
  return std::make_unique<PythonReader>(form, answer);
}

}  // namespace billow::output
