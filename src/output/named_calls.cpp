// Reads calls that consist of a name and the JSON of the arguments.
#include <optional>
#include <string>
#include <string_view>

#include "output/json_copy.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

class NamedReader final : public CallReader {
 public:
  NamedReader(const NamedCalls& form, Answer& answer)
      : form_(form),
        answer_(answer),
        tape_(answer.tape),
        openers_(joined(form.open, form.section_open)),
        open_(form.open, answer.control),
        prefix_(form.prefix, answer.control),
        id_open_(form.id_open, answer.control),
        name_end_(form.name_end, answer.control),
        name_stop_(joined(form.name_end, form.id_open), answer.control),
        close_(form.close, answer.control),
        closers_(joined(form.close, form.section_close), answer.control),
        calls_end_(joined(form.close, form.section_close, form.open), answer.control) {}

  const std::vector<std::string>& openers() const override { return openers_; }
  const Literals& closers() const override { return closers_; }
  bool marks_text() const override { return !form_.text_name.empty(); }

  Task<Found> read(size_t opener) override {
    bool is_open = opener < form_.open.size();
    Found all = Found::kNothing;
    for (;;) {
      Attempt attempt(answer_, Attempt::Kind::kLoose);
      CallWriter call(answer_);
      co_await skip_blanks(tape_);
      if (!is_open) is_open = co_await match(tape_, open_) != Literals::kNone;
      if (!is_open) break;
      is_open = false;
      const Found one = co_await read_call(call);
      if (one == Found::kText) {
        if (all == Found::kNothing) {
          attempt.accept();
          co_return one;
        }
        break;
      }
      if (one != Found::kCalls) {
        const Found rest = give_up(answer_, call, attempt);
        co_return rest == Found::kBroken ? rest : all;
      }
      attempt.accept();
      all = one;
      const size_t n = co_await count_blanks(tape_);
      const size_t close = co_await find_at(tape_, close_, n);
      if (close != Literals::kNone) tape_.take(n + close_[close].size());
    }
    co_return all;
  }

 private:
  // Reads from after the opener to the end of the arguments.
  Task<Found> read_call(CallWriter& call) {
    co_await skip_blanks(tape_);
    co_await match(tape_, prefix_);
    std::optional<std::string> name = co_await read_name(tape_, name_stop_, u"{\n");
    if (!name) co_return Found::kNothing;
    if (form_.name_is_id) {
      call.id(*name);
      name = name_in_id(*name);
    }
    const bool has_id = co_await match(tape_, id_open_) != Literals::kNone;
    if (has_id) {
      const std::optional<std::string> id = co_await read_name(tape_, name_end_, u"{");
      if (!id) co_return Found::kNothing;
      call.id(*id);
    }
    co_await match(tape_, name_end_);
    if (!form_.text_name.empty() && *name == form_.text_name) co_return Found::kText;
    if (answer_.tools.empty() || !call.name(*name)) co_return Found::kNothing;
    co_await skip_blanks(tape_);
    if (!form_.code_name.empty() && *name == form_.code_name && co_await tape_.look() != u'{') {
      co_return co_await read_code(call);
    }
    const bool has_fence = co_await take_fence(tape_);
    if (co_await tape_.look() == u'"') {
      const bool is_object = co_await read_object_in_text(call);
      if (has_fence) co_await take_fence_end(tape_);
      if (!is_object || !call.end()) co_return Found::kNothing;
      co_return Found::kCalls;
    }
    if (co_await tape_.look() != u'{') co_return Found::kNothing;
    const bool is_json = co_await copy_json(tape_, call, calls_end_);
    if (!is_json && (!call.has_spoken() || tape_.has_met_cut())) co_return Found::kNothing;
    if (!is_json) {
      // The beginning of the call is already reported, so the rest comes unchanged.
      const std::string rest = co_await take_until(tape_, calls_end_);
      call.append(rest);
      if (!is_byte(co_await tape_.look())) co_return Found::kNothing;
    }
    if (has_fence) co_await take_fence_end(tape_);
    co_return call.end() ? Found::kCalls : Found::kNothing;
  }

  // Reads arguments that are a JSON string with the text of a JSON object.
  Task<bool> read_object_in_text(CallWriter& call) {
    std::string text;
    const bool is_text = co_await read_string(tape_, text);
    if (!is_text || !is_json_object(text)) co_return false;
    call.append(text);
    co_return true;
  }

  // Returns NAME of "functions.NAME:0".
  static std::string name_in_id(std::string_view id) {
    constexpr std::string_view kPrefix = "functions.";
    if (id.starts_with(kPrefix)) id.remove_prefix(kPrefix.size());
    const size_t colon = id.rfind(':');
    const bool is_counted = colon != id.npos && colon + 1 < id.size() &&
                            id.find_first_not_of("0123456789", colon + 1) == id.npos;
    return std::string(is_counted ? id.substr(0, colon) : id);
  }

  // Reads code up to the next call or the end. The code becomes the argument "code".
  Task<Found> read_code(CallWriter& call) {
    const std::string code = co_await take_until(tape_, calls_end_);
    if (tape_.has_met_cut()) co_return Found::kNothing;
    call.append("{\"code\": " + quoted(code) + "}");
    co_return call.end() ? Found::kCalls : Found::kNothing;
  }

  const NamedCalls& form_;
  Answer& answer_;
  Tape& tape_;
  const Texts openers_;
  const Literals open_;
  const Literals prefix_;
  const Literals id_open_;
  const Literals name_end_;
  const Literals name_stop_;
  const Literals close_;
  const Literals closers_;
  const Literals calls_end_;  // closers and openers of calls
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const NamedCalls& form, Answer& answer) {
  return std::make_unique<NamedReader>(form, answer);
}

}  // namespace billow::output
