// Reads calls that are JSON objects with the tool's name: one object, an array, or several in a
// row.
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "output/json_copy.h"
#include "output/loose_json.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

constexpr int kMaxWrappers = 4;         // max objects around a call
constexpr size_t kMaxPreface = 256;     // max bytes before the first brace of a loose form
constexpr size_t kMaxLooseDepth = 100;  // max nesting of brackets

enum class Member : uint8_t { kName, kArguments, kId, kFunction, kType, kOther };

Member member_named(std::string_view key) {
  constexpr std::array<std::pair<std::string_view, Member>, 8> kMembers = {
      {{"name", Member::kName},
       {"tool_name", Member::kName},
       {"arguments", Member::kArguments},
       {"parameters", Member::kArguments},
       {"id", Member::kId},
       {"tool_call_id", Member::kId},
       {"function", Member::kFunction},
       {"type", Member::kType}}};
  for (const auto& [name, member] : kMembers)
    if (name == key) return member;
  return Member::kOther;
}

class JsonReader final : public CallReader {
 public:
  JsonReader(const JsonCalls& form, Answer& answer)
      : form_(form), answer_(answer), tape_(answer.tape), closers_(form.close, answer.control) {}

  const std::vector<std::string>& openers() const override { return form_.open; }
  const Literals& closers() const override { return closers_; }
  bool may_begin(Unit unit) const override {
    return unit == u'{' || unit == u'[' || (unit == u'`' && form_.fenced);
  }

  Task<Found> read(size_t) override {
    Attempt all(answer_, Attempt::Kind::kLoose);
    co_await skip_blanks(tape_);
    const bool has_fence = co_await take_fence(tape_);
    const bool is_array = !form_.loose && co_await tape_.look() == u'[';
    const Found found = form_.loose ? co_await read_loose()
                        : is_array  ? co_await read_array()
                                    : co_await read_row();
    if (form_.alone && tape_.has_met_cut()) {
      tape_.take(tape_.n_left());
      all.accept();
      co_return Found::kBroken;
    }
    if (found == Found::kNothing) {
      if (!all.has_spoken()) all.refuse();
      co_return found;
    }
    if (has_fence) co_await take_fence_end(tape_);
    all.accept();
    co_return found;
  }

 private:
  bool is_bare() const { return form_.open.empty(); }

  // Reads objects in brackets. In a bare array, every object must be a call.
  Task<Found> read_array() {
    tape_.take();
    Found all = Found::kNothing;
    for (;;) {
      co_await skip_blanks(tape_);
      const Unit unit = co_await tape_.look();
      if (unit == u']') {
        tape_.take();
        co_return all;
      }
      if (unit == u',') {
        tape_.take();
        continue;
      }
      const Found one = unit == u'{' ? co_await read_one() : Found::kNothing;
      if (one == Found::kNothing) co_return is_bare() ? Found::kNothing : all;
      all = one;
      if (one == Found::kBroken) co_return all;
    }
  }

  // Reads one object, or several with nothing or a semicolon or comma between them.
  Task<Found> read_row() {
    if (co_await tape_.look() != u'{') co_return Found::kNothing;
    Found all = co_await read_one();
    while (all == Found::kCalls) {
      size_t n = co_await count_blanks(tape_);
      const Unit unit = co_await tape_.look(n);
      if (unit == u';' || unit == u',') ++n;
      while (is_blank(co_await tape_.look(n))) ++n;
      if (co_await tape_.look(n) != u'{') break;
      Attempt next(answer_, Attempt::Kind::kLoose);
      tape_.take(n);
      const Found one = co_await read_one();
      if (one == Found::kNothing) {
        next.refuse();
        break;
      }
      next.accept();
      all = one;
    }
    co_return all;
  }

  // Reads the call that begins with the brace at the current position.
  Task<Found> read_one() {
    Attempt attempt(answer_, Attempt::Kind::kLoose);
    CallWriter call(answer_, form_.id_last, form_.ignored);
    saw_arguments_ = false;
    const bool is_call =
        form_.keyed ? co_await read_keyed(call) : co_await read_object(call, kMaxWrappers);
    if (is_call && call.end()) {
      attempt.accept();
      co_return Found::kCalls;
    }
    co_return give_up(answer_, call, attempt);
  }

  // Reads {"NAME": {arguments}}.
  Task<bool> read_keyed(CallWriter& call) {
    tape_.take();
    co_await skip_blanks(tape_);
    std::string name;
    const bool has_key = co_await read_key(name);
    if (!has_key || !call.name(name)) co_return false;
    const bool has_arguments = co_await read_arguments(call);
    if (!has_arguments) co_return false;
    co_await skip_blanks(tape_);
    co_return co_await take_end();
  }

  // Reads an object with the members of a call, in any order.
  Task<bool> read_object(CallWriter& call, int n_wrappers) {
    tape_.take();
    for (;;) {
      co_await skip_blanks(tape_);
      if (co_await tape_.look() == u',') {
        tape_.take();
        continue;
      }
      const bool ends = co_await take_end();
      if (ends) co_return call.has_name() && (call.has_arguments() || !is_bare() || saw_arguments_);
      std::string key;
      const bool has_key = co_await read_key(key);
      if (!has_key) co_return false;
      const bool has_value = co_await read_member(call, member_named(key), n_wrappers);
      if (!has_value) co_return false;
    }
  }

  Task<bool> read_key(std::string& key) {
    const bool is_text = co_await read_string(tape_, key);
    // Without a marker, an object with other members than those of a call is not a call.
    const bool is_strange = is_bare() && !form_.keyed && member_named(key) == Member::kOther;
    if (!is_text || is_strange) co_return false;
    co_await skip_blanks(tape_);
    if (co_await tape_.look() != u':') co_return false;
    tape_.take();
    co_await skip_blanks(tape_);
    co_return true;
  }

  Task<bool> read_member(CallWriter& call, Member member, int n_wrappers) {
    std::string text;
    const Unit unit = co_await tape_.look();
    if (member == Member::kName) {
      const bool is_text = co_await read_string(tape_, text);
      co_return is_text&& call.name(text);
    }
    if (member == Member::kArguments && !call.has_arguments())
      co_return co_await read_arguments(call);
    if (member == Member::kFunction && unit == u'{' && n_wrappers > 0)
      co_return co_await read_object(call, n_wrappers - 1);
    if (member == Member::kFunction && unit == u'"' && !call.has_name()) {
      const bool is_text = co_await read_string(tape_, text);
      co_return is_text&& call.name(text);
    }
    if (member == Member::kId && unit == u'"') {
      const bool is_text = co_await read_string(tape_, text);
      if (is_text) call.id(text);
      co_return is_text;
    }
    StringSink skipped;
    const bool is_value = co_await copy_json(tape_, skipped, closers_);
    if (is_value && member == Member::kId) call.id(skipped.text);
    co_return is_value;
  }

  Task<bool> read_arguments(CallWriter& call) {
    saw_arguments_ = true;
    const Unit unit = co_await tape_.look();
    if (unit == u'"') {
      // The arguments are an object within a text.
      std::string text;
      const bool is_text = co_await read_string(tape_, text);
      if (!is_text) co_return false;
      if (is_json_object(text)) {
        call.append(text);
        co_return true;
      }
      if (text.find_first_not_of(" \t\r\n") == text.npos) co_return true;
      call.append(quoted(text));
      co_return true;
    }
    if (unit == u'n' || unit == u'N') {
      StringSink nothing;
      co_return co_await copy_json(tape_, nothing, closers_);
    }
    const bool is_value = co_await copy_json(tape_, call, closers_);
    if (is_value) co_return true;
    if (!call.has_spoken() || tape_.has_met_cut()) co_return false;
    co_return co_await copy_unchanged(call);
  }

  // Copies arguments that are not JSON, because the beginning of the call is already reported.
  // Copies up to the marker that ends the call, without the closing bracket of the object around
  // the arguments.
  Task<bool> copy_unchanged(CallWriter& call) {
    std::string text = co_await take_until(tape_, closers_);
    if (text.ends_with('}')) text.pop_back();
    call.append(text);
    const bool is_closed = is_byte(co_await tape_.look());
    co_return is_closed;
  }

  // Takes the brace that ends an object. The brace may be missing at a marker that ends calls, and
  // at the end of the answer.
  Task<bool> take_end() {
    const Unit unit = co_await tape_.look();
    if (unit == u'}') {
      tape_.take();
      co_return true;
    }
    if (unit == kEnd) co_return !tape_.is_cut();
    co_return co_await find_at(tape_, closers_) != Literals::kNone;
  }

  // Reads objects that contain, or follow, the name of a declared tool.
  Task<Found> read_loose() {
    Found all = Found::kNothing;
    for (;;) {
      Attempt attempt(answer_, Attempt::Kind::kLoose);
      std::string preface;
      Unit unit = co_await tape_.look();
      for (; is_byte(unit) && unit != u'{' && preface.size() < kMaxPreface;
           unit = co_await tape_.look()) {
        if (closers_.may_begin(unit) && co_await find_at(tape_, closers_) != Literals::kNone) break;
        preface += byte_of(unit);
        tape_.take();
      }
      const bool may_be_more =
          all == Found::kNothing || preface.find_first_not_of(" \t\r\n,;[") == preface.npos;
      std::string object;
      if (unit == u'{' && may_be_more) object = co_await take_object();
      const auto calls = find_calls(object, preface + object, answer_.tools.names());
      for (const FoundCall& found : calls) {
        CallWriter call(answer_);
        if (!call.name(found.name)) continue;
        call.append(found.arguments);
        if (call.end()) all = Found::kCalls;
      }
      if (calls.empty()) {
        if (attempt.has_spoken())
          attempt.accept();
        else
          attempt.refuse();
        break;
      }
      attempt.accept();
    }
    if (all == Found::kCalls) co_await take_bracket();
    co_return all;
  }

  // Takes the closing bracket of an array of calls.
  Task<bool> take_bracket() {
    const size_t n = co_await count_blanks(tape_);
    const bool is_bracket = co_await tape_.look(n) == u']';
    if (is_bracket) tape_.take(n + 1);
    co_return is_bracket;
  }

  // Returns the text from a brace to its closing brace; empty if there is none.
  Task<std::string> take_object() {
    std::string text;
    size_t depth = 0;
    bool is_text = false;
    bool is_escaped = false;
    do {
      const Unit unit = co_await tape_.look();
      if (!is_byte(unit) || depth > kMaxLooseDepth) co_return std::string();
      if (unit == u'"' && !is_escaped) is_text = !is_text;
      is_escaped = is_text && !is_escaped && unit == u'\\';
      if (!is_text && unit == u'{') ++depth;
      if (!is_text && unit == u'}') --depth;
      text += byte_of(unit);
      tape_.take();
    } while (depth > 0);
    co_return text;
  }

  const JsonCalls& form_;
  Answer& answer_;
  Tape& tape_;
  const Literals closers_;
  bool saw_arguments_ = false;  // the current object has arguments, maybe null
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const JsonCalls& form, Answer& answer) {
  return std::make_unique<JsonReader>(form, answer);
}

}  // namespace billow::output
