// Reads calls with a tag for each argument.
#include <optional>
#include <string>
#include <string_view>

#include "base/text.h"
#include "output/readers.h"
#include "output/values.h"

namespace billow::output {
namespace {

constexpr std::string_view kCdata = "<![CDATA[";
constexpr std::string_view kCdataEnd = "]]>";

// The head of a tag: a name, alone or as an attribute, and whether the value is text.
struct Head {
  std::string name{};
  std::optional<bool> is_text{};
};

// Parses the head's attributes: key="value", key='value' or key=value. A single value is the name.
Head parse_head(std::string_view text) {
  Head head;
  text = trimmed(text, " \t\r\n/");
  const auto unquoted = [](std::string_view value) {
    const bool is_quoted =
        value.size() >= 2 && (value[0] == '"' || value[0] == '\'') && value.back() == value[0];
    return is_quoted ? value.substr(1, value.size() - 2) : value;
  };
  if (text.find('=') == text.npos) {
    head.name = unquoted(text);
    return head;
  }
  while (!text.empty()) {
    const size_t equals = text.find('=');
    if (equals == text.npos) break;
    const std::string_view key = trimmed(text.substr(0, equals));
    text = trimmed(text.substr(equals + 1));
    const bool is_quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
    size_t end = is_quoted ? text.find(text[0], 1) : text.find_first_of(kBlanks);
    if (end == text.npos)
      end = text.size();
    else if (is_quoted)
      ++end;
    const std::string_view value = unquoted(text.substr(0, end));
    text = trimmed(text.substr(end));
    if (key.empty() || key == "name" || key == "tool" || key == "key") head.name = value;
    if (key == "string") head.is_text = value == "true";
    if (key == "type") head.is_text = value == "string";
  }
  return head;
}

class TaggedReader final : public CallReader {
 public:
  TaggedReader(const TaggedCalls& form, Answer& answer)
      : form_(form),
        answer_(answer),
        tape_(answer.tape),
        openers_(joined(form.section_open, form.open)),
        open_(form.open, answer.control),
        close_(form.close, answer.control),
        closers_(joined(form.close, form.section_close, form.key_close), answer.control),
        key_open_(form.key_open, answer.control),
        key_close_(form.key_close, answer.control),
        tag_end_(Texts{form.tag_end}, answer.control),
        after_call_(joined(form.open, form.section_close), answer.control),
        after_key_(joined(form.key_open, form.key_close, form.close, form.open, form.section_close),
                   answer.control),
        // An argument that was not closed ends where the next tag begins a line.
        next_tag_(joined(form.key_open, form.close), answer.control) {}

  const std::vector<std::string>& openers() const override { return openers_; }
  const Literals& closers() const override { return closers_; }

  Task<Found> read(size_t opener) override {
    const bool has_section = opener < form_.section_open.size();
    bool is_open = !has_section;
    Found all = Found::kNothing;
    for (;;) {
      Attempt attempt(answer_, Attempt::Kind::kLoose);
      CallWriter call(answer_);
      co_await skip_blanks(tape_);
      if (!is_open) is_open = co_await match(tape_, open_) != Literals::kNone;
      if (!is_open) break;
      is_open = false;
      const bool is_call = co_await read_call(call, has_section);
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
  Task<std::optional<Head>> read_head() {
    const std::optional<std::string> text = co_await read_name(tape_, tag_end_, u"\n");
    if (!text) co_return std::nullopt;
    const bool has_end = co_await match(tape_, tag_end_) != Literals::kNone;
    if (!has_end) co_return std::nullopt;
    co_return parse_head(*text);
  }

  // Reads from the head of a call to after its closer.
  Task<bool> read_call(CallWriter& call, bool has_section) {
    const std::optional<Head> head = co_await read_head();
    // Without a marker around the calls, only the name of a tool distinguishes a call from text.
    if (!head || (!has_section && !answer_.tools.has(head->name))) co_return false;
    if (!call.name(head->name)) co_return false;
    for (;;) {
      co_await skip_blanks(tape_);
      const bool is_closed = co_await match(tape_, close_) != Literals::kNone;
      if (is_closed) break;
      const bool has_key = co_await match(tape_, key_open_) != Literals::kNone;
      if (has_key) {
        const bool has_value = co_await read_argument(call);
        if (!has_value) co_return false;
        continue;
      }
      // The model has written the closer twice.
      const bool is_doubled = co_await match(tape_, key_close_) != Literals::kNone;
      if (is_doubled) continue;
      // Only the closer is missing.
      const bool is_end = co_await tape_.look() == kEnd && !tape_.is_cut();
      const bool is_over = is_end || co_await find_at(tape_, after_call_) != Literals::kNone;
      if (is_over && answer_.tools.has(call.name())) break;
      co_return false;
    }
    call.end_keys();
    co_return true;
  }

  // Reads from the head of an argument to after its closer.
  Task<bool> read_argument(CallWriter& call) {
    const std::optional<Head> head = co_await read_head();
    if (!head || head->name.empty()) co_return false;
    unsigned types = answer_.tools.types_of(call.name(), head->name);
    if (head->is_text) types = *head->is_text ? unsigned{kString} : types & ~unsigned{kString};
    const bool says_json = head->is_text.has_value() && !*head->is_text;
    Literals own_close;
    if (form_.key_is_tag) {
      Texts texts;
      for (const std::string& close : form_.key_close)
        texts.push_back(close + head->name + form_.tag_end);
      own_close = Literals(texts, answer_.control);
    }
    call.key(head->name);
    const bool streams = types == kString && !form_.has_cdata;
    Value value(call, form_.values, streams);
    const bool is_whole =
        co_await read_value(call, value, form_.key_is_tag ? own_close : key_close_);
    if (!is_whole) co_return false;
    std::string text = value.end();
    if (streams) co_return true;
    if (form_.has_cdata && text.starts_with(kCdata) && text.ends_with(kCdataEnd))
      text = text.substr(kCdata.size(), text.size() - kCdata.size() - kCdataEnd.size());
    call.append(says_json && is_json(text) ? text : value_json(text, types));
    co_return true;
  }

  // The text of a value while it arrives. Line breaks or blanks at its end wait, because they may
  // belong to the markup.
  class Value {
   public:
    Value(CallWriter& call, ValueRule rule, bool streams)
        : call_(call), rule_(rule), streams_(streams) {
      if (streams_) call_.append("\"");
    }
    void add(Unit unit) {
      const bool waits = (rule_ == ValueRule::kLines && unit == u'\n') ||
                         (rule_ == ValueRule::kTrimmed && is_blank(unit));
      const bool is_first = !has_begun_;
      if (is_first && waits) {
        if (rule_ == ValueRule::kLines) has_begun_ = true;
        return;
      }
      has_begun_ = true;
      if (!waits || (rule_ == ValueRule::kLines && !waiting_.empty())) flush();
      if (waits)
        waiting_ += byte_of(unit);
      else
        say(std::string(1, byte_of(unit)));
      is_line_start_ = unit == u'\n';
    }
    // Returns whether a tag here would begin a line or the value.
    bool is_line_start() const { return is_line_start_; }
    // Ends the value. Returns its text if it is not streamed.
    std::string end() {
      if (streams_) call_.append("\"");
      return std::move(text_);
    }

   private:
    void flush() {
      say(waiting_);
      waiting_.clear();
    }
    void say(const std::string& text) {
      if (text.empty()) return;
      if (!streams_) {
        text_ += text;
        return;
      }
      std::string escaped;
      append_escaped(escaped, text);
      call_.append(escaped);
    }

    CallWriter& call_;
    const ValueRule rule_;
    const bool streams_;
    std::string text_{};
    std::string waiting_{};
    bool has_begun_ = false;
    bool is_line_start_ = true;
  };

  // Reads up to after the closer. A closer counts only if the text after it may follow a value. So
  // the text of a value may contain the closer.
  Task<bool> read_value(const CallWriter& call, Value& value, const Literals& close) {
    for (;;) {
      const Unit unit = co_await tape_.look();
      if (unit == kEnd) co_return !tape_.is_cut() && answer_.tools.has(call.name());
      if (!is_byte(unit)) co_return false;
      if (close.may_begin(unit)) {
        const size_t closer = co_await find_at(tape_, close);
        if (closer != Literals::kNone) {
          const size_t n_closer = close[closer].size();
          size_t n = n_closer;
          while (is_blank(co_await tape_.look(n))) ++n;
          const bool is_last = co_await tape_.look(n) == kEnd;
          if (is_last || co_await find_at(tape_, after_key_, n) != Literals::kNone) {
            tape_.take(n_closer);
            co_return true;
          }
        }
      }
      if (value.is_line_start() && next_tag_.may_begin(unit) && !form_.key_is_tag &&
          co_await find_at(tape_, next_tag_) != Literals::kNone)
        co_return true;
      value.add(unit);
      tape_.take();
    }
  }

  const TaggedCalls& form_;
  Answer& answer_;
  Tape& tape_;
  const Texts openers_;
  const Literals open_;
  const Literals close_;
  const Literals closers_;
  const Literals key_open_;
  const Literals key_close_;
  const Literals tag_end_;
  const Literals after_call_;
  const Literals after_key_;
  const Literals next_tag_;
};

}  // namespace

std::unique_ptr<CallReader> make_reader(const TaggedCalls& form, Answer& answer) {
  return std::make_unique<TaggedReader>(form, answer);
}

}  // namespace billow::output
