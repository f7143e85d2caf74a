// Reads Gemma's calls: call:NAME{key:value}, with a special marker around texts.
#include <string>
#include <string_view>

#include "output/json_copy.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

class GemmaReader final : public CallReader {
 public:
  GemmaReader(const GemmaCalls& form, Answer& answer)
      : form_(form),
        answer_(answer),
        tape_(answer.tape),
        prefix_(Texts{"call:", ":"}, {}),
        quote_(Texts{form.quote}, answer.control),
        closers_(joined(form.close, form.ends), answer.control),
        after_closer_(form.open, answer.control) {}

  const std::vector<std::string>& openers() const override { return form_.open; }
  const Literals& closers() const override { return closers_; }

  Task<Found> read(size_t) override {
    Attempt attempt(answer_, Attempt::Kind::kLoose);
    CallWriter call(answer_);
    const bool is_call = co_await read_call(call);
    if (is_call && call.end()) {
      attempt.accept();
      co_return Found::kCalls;
    }
    co_return give_up(answer_, call, attempt);
  }

 private:
  Task<bool> read_call(CallWriter& call) {
    co_await skip_blanks(tape_);
    co_await match(tape_, prefix_);
    const std::optional<std::string> name = co_await read_name(tape_, closers_, u"{(\n");
    if (!name || !call.name(*name)) co_return false;
    const Unit unit = co_await tape_.look();
    if (unit == u'{') co_return co_await copy_object(call, 0, u'}');
    if (unit == u'(') co_return co_await copy_object(call, 0, u')');
    co_return false;
  }

  // Copies an object from its opening bracket on. Keys are bare or quoted.
  Task<bool> copy_object(CallWriter& to, int depth, Unit close) {
    tape_.take();
    to.append("{");
    std::string_view comma;
    for (;;) {
      co_await skip_blanks(tape_);
      const Unit unit = co_await tape_.look();
      const bool ends = unit == close || co_await is_at_end();
      if (ends) {
        if (unit == close) tape_.take();
        to.append("}");
        co_return true;
      }
      if (unit == u',') {
        tape_.take();
        continue;
      }
      StringSink key;
      const bool has_key = co_await read_key(key.text);
      if (!has_key) co_return false;
      to.append(std::string(comma) + quoted(key.text) + ": ");
      comma = ", ";
      co_await skip_blanks(tape_);
      const bool has_value = co_await copy_value(to, depth + 1);
      if (!has_value) co_return false;
    }
  }

  Task<bool> copy_array(CallWriter& to, int depth) {
    tape_.take();
    to.append("[");
    std::string_view comma;
    for (;;) {
      co_await skip_blanks(tape_);
      const Unit unit = co_await tape_.look();
      const bool ends = unit == u']' || co_await is_at_end();
      if (ends) {
        if (unit == u']') tape_.take();
        to.append("]");
        co_return true;
      }
      if (unit == u',') {
        tape_.take();
        continue;
      }
      if (!comma.empty()) to.append(comma);
      comma = ", ";
      const bool has_value = co_await copy_value(to, depth + 1);
      if (!has_value) co_return false;
    }
  }

  // Reads a key and takes its colon.
  Task<bool> read_key(std::string& key) {
    const Unit unit = co_await tape_.look();
    const bool is_marked = co_await match(tape_, quote_) != Literals::kNone;
    if (is_marked) {
      key = co_await take_until(tape_, quote_);
      co_await match(tape_, quote_);
    } else if (unit == u'"' || unit == u'\'') {
      const bool is_text = co_await read_string(tape_, key);
      if (!is_text) co_return false;
    } else {
      const std::optional<std::string> bare = co_await read_name(tape_, closers_, u":,={}[]");
      if (!bare) co_return false;
      key = *bare;
    }
    co_await skip_blanks(tape_);
    const Unit colon = co_await tape_.look();
    if (key.empty() || (colon != u':' && colon != u'=')) co_return false;
    tape_.take();
    co_return true;
  }

  Task<bool> copy_value(CallWriter& to, int depth) {
    if (depth > kMaxJsonDepth) co_return false;
    const Unit unit = co_await tape_.look();
    const bool is_marked = co_await match(tape_, quote_) != Literals::kNone;
    bool is_value = false;
    if (is_marked) {
      is_value = co_await copy_text(to, depth);
    } else if (unit == u'{') {
      is_value = co_await copy_object(to, depth, u'}');
    } else if (unit == u'[') {
      is_value = co_await copy_array(to, depth);
    } else if (unit == u'"' || unit == u'\'') {
      is_value = co_await copy_json(tape_, to, closers_);
    } else {
      const std::optional<std::string> bare = co_await read_name(tape_, closers_, u",{}[])");
      if (!bare || bare->empty()) co_return false;
      to.append(value_json(*bare, kNull | kBoolean | kNumber));
      is_value = true;
    }
    co_return is_value;
  }

  // Copies a text unchanged up to the next marker. If the marker is missing, the text ends with the
  // call, and the brackets at its end are those of the call.
  Task<bool> copy_text(CallWriter& to, int depth) {
    to.append("\"");
    std::string waiting;  // brackets and blanks
    for (;;) {
      const Unit unit = co_await tape_.look();
      const bool is_end = co_await match(tape_, quote_) != Literals::kNone;
      if (is_end) break;
      const bool is_cut_short = co_await is_at_end();
      if (is_cut_short) {
        size_t n_brackets = static_cast<size_t>(depth);
        while (!waiting.empty() && (waiting.back() != '}' || n_brackets > 0)) {
          if (waiting.back() == '}') --n_brackets;
          waiting.pop_back();
        }
        break;
      }
      if (!is_byte(unit)) co_return false;
      const char byte = byte_of(unit);
      tape_.take();
      if (byte == '}' || (is_blank(unit) && !waiting.empty())) {
        waiting += byte;
        continue;
      }
      std::string escaped;
      append_escaped(escaped, waiting + byte);
      waiting.clear();
      to.append(escaped);
    }
    std::string escaped;
    append_escaped(escaped, waiting);
    to.append(escaped + "\"");
    co_return true;
  }

  // Returns whether the call ends here: at the end of the answer, or at a marker that ends the
  // call. After such a marker, only the next call or the end may follow. Takes nothing.
  Task<bool> is_at_end() {
    const Unit unit = co_await tape_.look();
    if (unit == kEnd) co_return !tape_.is_cut();
    if (!closers_.may_begin(unit)) co_return false;
    const size_t closer = co_await find_at(tape_, closers_);
    if (closer == Literals::kNone) co_return false;
    size_t n = closers_[closer].size();
    while (is_blank(co_await tape_.look(n))) ++n;
    if (co_await tape_.look(n) == kEnd) co_return true;
    co_return co_await find_at(tape_, after_closer_, n) != Literals::kNone;
  }

  const GemmaCalls& form_;
  Answer& answer_;
  Tape& tape_;
  const Literals prefix_;
  const Literals quote_;
  const Literals closers_;
  const Literals after_closer_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const GemmaCalls& form, Answer& answer) {
  return std::make_unique<GemmaReader>(form, answer);
}

}  // namespace billow::output
