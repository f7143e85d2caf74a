#include "output/parser.h"

#include <algorithm>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.h"
#include "output/answer.h"
#include "output/readers.h"

namespace billow::output {
namespace {

// If a failed attempt to read a call has looked further ahead than this, the search for calls
// resumes after that text. So no byte is read more than this many times.
constexpr size_t kMaxTriedAgain = 1024;

bool is_harmony(const Format& format) {
  return !format.calls.empty() && std::holds_alternative<HarmonyCalls>(format.calls.front());
}

}  // namespace

class Parser::Machine {
 public:
  Machine(const Format& format, const Start& start, const std::vector<Tool>& tools,
          const Options& options)
      : format_(format),
        answer_(tools, options.whole_calls, !options.thinks, format_.control),
        parses_calls_(options.parse_calls && !tools.empty()),
        think_open_(format_.thinking.open, format_.control),
        think_close_(format_.thinking.close, format_.control),
        think_hidden_(format_.thinking.hidden, format_.control),
        text_open_(format_.text.open, format_.control),
        text_close_(format_.text.close, format_.control),
        hidden_(format_.text.hidden, format_.control),
        citation_(citations(), format_.control) {
    for (const CallForm& form : format_.calls)
      if (auto reader = reader_of(form)) add_reader(std::move(reader));
    openers_ = Literals(opener_texts_, format_.control);
    const Texts& ends = format_.thinking.close;
    think_markers_ =
        Literals(joined(opener_texts_, ends, format_.thinking.hidden), format_.control);
    text_markers_ = Literals(joined(opener_texts_, format_.thinking.open, format_.text.close,
                                    format_.text.hidden, citations()),
                             format_.control);
    answer_.n_prefix = start.prefix.size();
    append(start.prefix, marks_of(start.prefix));
    task_.emplace(read(start.state));
    task_->put_on(stack_);
  }

  void add(std::string_view text, std::span<const Mark> marks) {
    append(text, marks);
    run();
  }
  void finish(FinishReason reason) {
    answer_.tape.end(reason);
    run();
    BILLOW_CHECK(stack_.empty());
    task_->result();
    answer_.output.finish();
  }
  void deliver(std::vector<Event>& out, bool is_last) { answer_.output.deliver(out, is_last); }

 private:
  void run() {
    answer_.tape.run(stack_);
    answer_.tape.forget();
  }

  void append(std::string_view text, std::span<const Mark> marks) {
    size_t begin = 0;
    for (const Mark& mark : marks) {
      const std::string_view token = text.substr(mark.offset, mark.length);
      const bool counts =
          std::find(format_.control.begin(), format_.control.end(), token) != format_.control.end();
      if (!counts) continue;
      answer_.tape.append(text.substr(begin, mark.offset - begin), 0, 0);
      answer_.tape.append(token, kTokenStart, kTokenRest);
      begin = mark.offset + mark.length;
    }
    answer_.tape.append(text.substr(begin), 0, 0);
  }

  // Returns the control tokens in a text of the prompt. The prompt is tokenised with them.
  std::vector<Mark> marks_of(std::string_view text) const {
    std::vector<Mark> marks;
    for (size_t at = 0; at < text.size();) {
      size_t length = 0;
      for (const std::string& token : format_.control)
        if (text.substr(at).starts_with(token)) length = std::max(length, token.size());
      if (length > 0) marks.push_back({.offset = at, .length = length});
      at += std::max(length, size_t{1});
    }
    return marks;
  }

  Texts citations() const {
    return format_.text.has_citations ? Texts{"<co>", "</co>", "</co:"} : Texts{};
  }

  std::unique_ptr<CallReader> reader_of(const CallForm& form) {
    return std::visit(
        [&](const auto& one) -> std::unique_ptr<CallReader> {
          if constexpr (std::is_same_v<std::decay_t<decltype(one)>, HarmonyCalls>)
            return nullptr;
          else
            return make_reader(one, answer_);
        },
        form);
  }

  void add_reader(std::unique_ptr<CallReader> reader) {
    if (!parses_calls_ && !reader->marks_text()) return;
    const std::vector<std::string>& texts = reader->openers();
    if (texts.empty()) bare_.push_back(reader.get());
    for (size_t i = 0; i < texts.size(); ++i) {
      const auto known = std::find(opener_texts_.begin(), opener_texts_.end(), texts[i]);
      const auto n = static_cast<size_t>(known - opener_texts_.begin());
      if (known == opener_texts_.end()) {
        opener_texts_.push_back(texts[i]);
        users_.emplace_back();
      }
      users_[n].push_back({reader.get(), i});
    }
    readers_.push_back(std::move(reader));
  }

  // Takes the byte at the current position as thinking or text. Does not report bytes of the
  // prompt.
  void say(EventKind kind, Unit unit) {
    if (answer_.tape.position() >= answer_.n_prefix) answer_.output.say(kind, byte_of(unit));
    answer_.tape.take();
  }

  Task<bool> read(StartState state) {
    Tape& tape = answer_.tape;
    if (is_harmony(format_)) co_return co_await read_harmony(answer_, parses_calls_);
    bool is_start = state != StartState::kContinued;
    bool thinks = state == StartState::kThinking;
    if (state == StartState::kMayThink && !think_open_.empty()) {
      const size_t n_blanks = co_await count_blanks(tape);
      const size_t open = co_await find_at(tape, think_open_, n_blanks);
      thinks = open != Literals::kNone;
      if (thinks) tape.take(n_blanks + think_open_[open].size());
    }
    for (;;) {
      if (thinks) {
        is_start = co_await read_thinking(state == StartState::kThinking);
        state = StartState::kText;
      }
      thinks = co_await read_text(is_start);
      if (!thinks) co_return true;
    }
  }

  // Reads thinking, from after its opener to after its closer. Returns true if text follows, false
  // after calls within thinking. `may_echo`: the model may repeat the opener of the prompt.
  Task<bool> read_thinking(bool may_echo) {
    Tape& tape = answer_.tape;
    const bool finds_calls = !format_.thinking.quotes_calls && !openers_.empty();
    answer_.output.trim();
    if (may_echo) {
      const size_t n_blanks = co_await count_blanks(tape);
      const size_t echo = co_await find_at(tape, think_open_, n_blanks);
      if (echo != Literals::kNone) tape.take(n_blanks + think_open_[echo].size());
    }
    for (;;) {
      const Unit unit = co_await tape.look();
      if (!is_byte(unit)) break;
      if (!think_markers_.may_begin(unit)) {
        say(EventKind::kThinking, unit);
        continue;
      }
      const size_t close = co_await match(tape, think_close_);
      if (close != Literals::kNone) break;
      const size_t hidden = co_await match(tape, think_hidden_);
      if (hidden != Literals::kNone) continue;
      if (finds_calls && openers_.may_begin(unit) && tape.position() >= no_calls_before_) {
        const bool has_calls = co_await read_calls_in_thinking();
        if (has_calls) co_return false;
        const size_t opener = co_await find_at(tape, openers_);
        if (opener != Literals::kNone) {
          for (size_t n = openers_[opener].size(); n > 0; --n)
            say(EventKind::kThinking, co_await tape.look());
          continue;
        }
      }
      say(EventKind::kThinking, unit);
    }
    answer_.output.trim();
    co_return true;
  }

  // Reads calls within thinking. They count only if nothing but calls and the end follows them;
  // otherwise the model only writes about calls. All must be calls of declared tools.
  Task<bool> read_calls_in_thinking() {
    Tape& tape = answer_.tape;
    const size_t begin = tape.position();
    Attempt attempt(answer_, Attempt::Kind::kFirm);
    answer_.must_declare = true;
    bool counts = false;
    for (int n = 0; !counts; ++n) {
      const Unit unit = co_await tape.look();
      if (unit == kEnd) {
        counts = n > 0;
        break;
      }
      const size_t opener = co_await match(tape, openers_);
      if (opener == Literals::kNone) {
        if (n > 0) counts = co_await is_end_of_thinking();
        break;
      }
      CallReader* found = nullptr;
      for (const User& user : users_[opener]) {
        const Found what = co_await user.reader->read(user.opener);
        if (what != Found::kCalls) continue;
        found = user.reader;
        break;
      }
      if (!found) break;
      co_await skip_closers(*found);
      counts = n > 0;
    }
    answer_.must_declare = false;
    if (counts) {
      attempt.accept();
    } else {
      attempt.refuse();
      note_tried(begin);
    }
    co_return counts;
  }

  // Returns whether the closer of thinking follows, and nothing after it.
  Task<bool> is_end_of_thinking() {
    Tape& tape = answer_.tape;
    const size_t close = co_await match(tape, think_close_);
    if (close == Literals::kNone) co_return false;
    co_await skip_blanks(tape);
    co_return co_await tape.look() == kEnd;
  }

  // Reads text to the end of the answer. Returns true after an opener of thinking.
  Task<bool> read_text(bool is_start) {
    Tape& tape = answer_.tape;
    while (is_start) is_start = co_await read_beginning();
    for (;;) {
      const Unit unit = co_await tape.look();
      if (!is_byte(unit)) co_return false;
      if (!text_markers_.may_begin(unit)) {
        say(EventKind::kText, unit);
        continue;
      }
      if (openers_.may_begin(unit) && tape.position() >= no_calls_before_) {
        const bool has_read = co_await read_calls();
        if (has_read) continue;
      }
      if (format_.thinking.repeats) {
        const size_t open = co_await match(tape, think_open_);
        if (open != Literals::kNone) co_return true;
      }
      const bool is_markup = co_await take_markup(unit);
      if (!is_markup) say(EventKind::kText, unit);
    }
  }

  // Reads markers and calls that count only where the text begins. Returns true if more may follow.
  Task<bool> read_beginning() {
    Tape& tape = answer_.tape;
    const size_t n_blanks = co_await count_blanks(tape);
    const Unit unit = co_await tape.look(n_blanks);
    const size_t close = co_await find_at(tape, think_close_, n_blanks);
    if (close != Literals::kNone) {
      tape.take(n_blanks + think_close_[close].size());
      answer_.output.trim();
      co_return true;
    }
    const size_t open = co_await find_at(tape, text_open_, n_blanks);
    if (open != Literals::kNone) {
      tape.take(n_blanks + text_open_[open].size());
      answer_.output.trim();
      is_wrapped_ = true;
      co_return true;
    }
    for (CallReader* reader : bare_) {
      if (!parses_calls_ || !reader->may_begin(unit)) continue;
      Attempt attempt(answer_, Attempt::Kind::kFirm);
      tape.take(n_blanks);
      answer_.must_declare = true;
      const Found found = co_await reader->read(0);
      answer_.must_declare = false;
      if (found == Found::kCalls) {
        attempt.accept();
        co_await skip_closers(*reader);
        break;
      }
      attempt.refuse();
    }
    co_return false;
  }

  // Reads calls at an opener. If there are no calls, the opener is text. Returns false if there is
  // no opener.
  Task<bool> read_calls() {
    Tape& tape = answer_.tape;
    const size_t opener = co_await find_at(tape, openers_);
    if (opener == Literals::kNone) co_return false;
    const size_t begin = tape.position();
    for (const User& user : users_[opener]) {
      Attempt attempt(answer_, Attempt::Kind::kLoose);
      tape.take(openers_[opener].size());
      const Found found = co_await user.reader->read(user.opener);
      if (found == Found::kNothing) {
        attempt.refuse();
        continue;
      }
      attempt.accept();
      if (found == Found::kText) answer_.output.trim();
      if (found == Found::kCalls) co_await skip_closers(*user.reader);
      co_return true;
    }
    note_tried(begin);
    for (size_t n = openers_[opener].size(); n > 0; --n)
      say(EventKind::kText, co_await tape.look());
    co_return true;
  }

  void note_tried(size_t begin) {
    const size_t furthest = answer_.tape.furthest();
    if (furthest > begin + kMaxTriedAgain) no_calls_before_ = furthest;
  }

  Task<bool> skip_closers(const CallReader& reader) {
    Tape& tape = answer_.tape;
    for (;;) {
      co_await skip_blanks(tape);
      const size_t closer = co_await match(tape, reader.closers());
      if (closer == Literals::kNone) co_return true;
    }
  }

  // Takes markup within the text, if there is any at the current position.
  Task<bool> take_markup(Unit unit) {
    Tape& tape = answer_.tape;
    const size_t hidden = co_await match(tape, hidden_);
    if (hidden != Literals::kNone) co_return true;
    const size_t citation = co_await match(tape, citation_);
    if (citation == 0 || citation == 1) co_return true;
    if (citation == 2) {
      const std::optional<std::string> source = co_await read_name(tape, Literals(), u">");
      if (source) tape.take();
      co_return true;
    }
    if (!is_wrapped_ || !text_close_.may_begin(unit)) co_return false;
    // The closer may be part of the text. It counts only before the end, a call or hidden markup.
    const size_t close = co_await find_at(tape, text_close_);
    if (close == Literals::kNone) co_return false;
    size_t n = text_close_[close].size();
    while (is_blank(co_await tape.look(n))) ++n;
    const bool is_last = co_await tape.look(n) == kEnd ||
                         co_await find_at(tape, openers_, n) != Literals::kNone ||
                         co_await find_at(tape, hidden_, n) != Literals::kNone;
    if (!is_last) co_return false;
    tape.take(n);
    answer_.output.trim();
    co_return true;
  }

  struct User {
    CallReader* reader;
    size_t opener;  // index in the reader's list
  };

  const Format format_;
  Answer answer_;
  const bool parses_calls_;
  const Literals think_open_;
  const Literals think_close_;
  const Literals think_hidden_;
  const Literals text_open_;
  const Literals text_close_;
  const Literals hidden_;
  const Literals citation_;
  std::vector<std::unique_ptr<CallReader>> readers_{};
  std::vector<CallReader*> bare_{};
  Texts opener_texts_{};
  std::vector<std::vector<User>> users_{};  // users of each opener
  Literals openers_{};
  Literals think_markers_{};  // all markers in thinking
  Literals text_markers_{};
  size_t no_calls_before_ = 0;
  bool is_wrapped_ = false;
  TaskStack stack_{};
  std::optional<Task<bool>> task_{};
};

Parser::Parser(const Format& format, const Start& start, std::vector<Tool> tools,
               const Options& options)
    : machine_(std::make_unique<Machine>(format, start, tools, options)) {}
Parser::~Parser() = default;
Parser::Parser(Parser&&) noexcept = default;
Parser& Parser::operator=(Parser&&) noexcept = default;

void Parser::add(std::string_view text, std::span<const Mark> marks, std::vector<Event>& out) {
  machine_->add(text, marks);
  machine_->deliver(out, false);
}

void Parser::finish(FinishReason reason, std::vector<Event>& out) {
  machine_->finish(reason);
  machine_->deliver(out, true);
}

}  // namespace billow::output
