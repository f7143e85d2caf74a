// Reads calls that are a name and pairs of texts: a key and a value.
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

class PairReader final : public CallReader {
 public:
  PairReader(const PairCalls& form, Answer& answer)
      : answer_(answer),
        tape_(answer.tape),
        openers_(joined(form.open, form.section_open)),
        n_open_(form.open.size()),
        open_(form.open, answer.control),
        close_(form.close, answer.control),
        closers_(joined(form.close, form.section_close), answer.control),
        name_stop_(joined(form.name_end, form.key_open, form.close), answer.control),
        name_end_(form.name_end, answer.control),
        key_open_(form.key_open, answer.control),
        key_close_(form.key_close, answer.control),
        key_stop_(joined(form.key_close, form.value_open), answer.control),
        value_open_(form.value_open, answer.control),
        value_close_(form.value_close, answer.control),
        after_value_(joined(form.key_open, form.value_close, form.close), answer.control) {}

  const std::vector<std::string>& openers() const override { return openers_; }
  const Literals& closers() const override { return closers_; }

  Task<Found> read(size_t opener) override {
    bool is_open = opener < n_open_;
    Found all = Found::kNothing;
    for (;;) {
      Attempt attempt(answer_, Attempt::Kind::kLoose);
      CallWriter call(answer_);
      co_await skip_blanks(tape_);
      if (!is_open) is_open = co_await match(tape_, open_) != Literals::kNone;
      if (!is_open) break;
      is_open = false;
      const bool is_call = co_await read_call(call);
      if (!is_call || !call.end()) {
        const Found rest = give_up(answer_, call, attempt);
        co_return rest == Found::kBroken ? rest : all;
      }
      attempt.accept();
      all = Found::kCalls;
    }
    co_return all;
  }

 private:
  // Reads from after the opener to after the closer.
  Task<bool> read_call(CallWriter& call) {
    co_await skip_blanks(tape_);
    const std::optional<std::string> name = co_await read_name(tape_, name_stop_, u"\n{<");
    if (!name || !call.name(*name)) co_return false;
    co_await match(tape_, name_end_);
    for (;;) {
      co_await skip_blanks(tape_);
      const bool is_closed = co_await match(tape_, close_) != Literals::kNone;
      if (is_closed) break;
      const bool is_doubled = co_await match(tape_, value_close_) != Literals::kNone;
      if (is_doubled) continue;
      const bool has_key = co_await match(tape_, key_open_) != Literals::kNone;
      if (!has_key) {
        // Only the closer is missing.
        const bool is_end = co_await tape_.look() == kEnd && !tape_.is_cut();
        if (is_end && answer_.tools.has(*name)) break;
        co_return false;
      }
      const bool has_pair = co_await read_pair(call);
      if (!has_pair) co_return false;
    }
    call.end_keys();
    co_return true;
  }

  Task<bool> read_pair(CallWriter& call) {
    const std::optional<std::string> key = co_await read_name(tape_, key_stop_);
    if (!key) co_return false;
    co_await match(tape_, key_close_);
    co_await skip_blanks(tape_);
    const bool has_value = co_await match(tape_, value_open_) != Literals::kNone;
    if (!has_value) co_return false;
    const unsigned types = answer_.tools.types_of(call.name(), *key);
    const bool is_text = types == kString;
    call.key(*key);
    if (is_text) call.append("\"");
    std::string value;
    for (;;) {
      const Unit unit = co_await tape_.look();
      if (unit == kEnd && !tape_.is_cut() && answer_.tools.has(call.name())) break;
      if (!is_byte(unit)) co_return false;
      const bool ends = value_close_.may_begin(unit) && co_await takes_end();
      if (ends) break;
      value += byte_of(unit);
      tape_.take();
      if (!is_text) continue;
      std::string escaped;
      append_escaped(escaped, value);
      call.append(escaped);
      value.clear();
    }
    call.append(is_text ? "\"" : value_json(value, types));
    co_return true;
  }

  // Takes the closer of a value if the text after it may follow a value.
  Task<bool> takes_end() {
    const size_t closer = co_await find_at(tape_, value_close_);
    if (closer == Literals::kNone) co_return false;
    size_t n = value_close_[closer].size();
    while (is_blank(co_await tape_.look(n))) ++n;
    const bool is_last = co_await tape_.look(n) == kEnd;
    if (!is_last && co_await find_at(tape_, after_value_, n) == Literals::kNone) co_return false;
    tape_.take(value_close_[closer].size());
    co_return true;
  }

  Answer& answer_;
  Tape& tape_;
  const Texts openers_;
  const size_t n_open_;
  const Literals open_;
  const Literals close_;
  const Literals closers_;
  const Literals name_stop_;
  const Literals name_end_;
  const Literals key_open_;
  const Literals key_close_;
  const Literals key_stop_;
  const Literals value_open_;
  const Literals value_close_;
  const Literals after_value_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const PairCalls& form, Answer& answer) {
  return std::make_unique<PairReader>(form, answer);
}

}  // namespace billow::output
