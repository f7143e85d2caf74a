// Reads answers in the form of harmony: messages with a channel and an optional recipient.
#include "output/harmony.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>

#include "base/text.h"
#include "output/json_copy.h"
#include "output/readers.h"

namespace billow::output {
namespace {

constexpr std::string_view kFunctions = "functions.";

// The header of a message.
struct Header {
  std::string_view channel;
  std::string_view recipient;
};

// Returns the word after `key`, up to a blank or the next marker; empty if there is none.
std::string_view word_after(std::string_view header, std::string_view key) {
  const size_t at = header.rfind(key);
  if (at == header.npos) return "";
  const std::string_view rest = trimmed(header.substr(at + key.size()));
  return rest.substr(0, rest.find_first_of(" \t\r\n<"));
}

std::string identifier(std::string_view name) {
  std::string made;
  for (const char byte : name) {
    const bool is_word = is_letter(static_cast<unsigned char>(byte)) ||
                         is_digit(static_cast<unsigned char>(byte)) || byte == '_' || byte == '$';
    if (is_word)
      made += byte;
    else if (byte == ' ' || byte == '-' || byte == '.')
      made += '_';
  }
  if (made.empty()) return "unnamed";
  if (is_digit(static_cast<unsigned char>(made[0]))) made.insert(0, "_");
  return made;
}

class HarmonyReader {
 public:
  HarmonyReader(Answer& answer, bool parses_calls)
      : answer_(answer),
        tape_(answer.tape),
        parses_calls_(parses_calls),
        message_(Texts{"<|message|>"}, answer.control),
        ends_(Texts{"<|end|>", "<|call|>", "<|return|>"}, answer.control),
        header_begins_(Texts{"<|start|>", "<|channel|>"}, answer.control),
        header_ends_(Texts{"<|message|>", "<|end|>", "<|call|>", "<|return|>"}, answer.control),
        body_ends_(Texts{"<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"},
                   answer.control),
        known_as_(harmony_names(answer.tools.names())) {}

  Task<bool> read() {
    for (;;) {
      // Blanks between messages are markup; blanks at the beginning of an answer are text.
      if (!is_first_) co_await skip_blanks(tape_);
      if (!is_byte(co_await tape_.look())) co_return true;
      const size_t end = co_await match(tape_, ends_);
      if (end != Literals::kNone) continue;
      const std::optional<std::string> header = co_await read_header();
      is_first_ = false;
      if (!header) {
        const bool is_broken = co_await skip_broken_header();
        if (is_broken) continue;
      }
      // Text without a header goes to the channel "final".
      const Header fields =
          header ? Header{word_after(*header, "<|channel|>"), word_after(*header, "to=")}
                 : Header{"final", ""};
      co_await read_body(fields);
    }
  }

 private:
  // Reads a header and takes the marker of the message after it; nullopt if there is no header.
  Task<std::optional<std::string>> read_header() {
    Attempt attempt(answer_, Attempt::Kind::kFirm);
    const std::optional<std::string> text = co_await read_name(tape_, header_ends_);
    const bool is_header = text && co_await match(tape_, message_) != Literals::kNone;
    if (!is_header) {
      attempt.refuse();
      co_return std::nullopt;
    }
    attempt.accept();
    co_return text;
  }

  // Takes a header without a message, as in an answer that was cut off. If the header does not end,
  // takes only its marker, so that the rest is text. Returns false if there is no header.
  Task<bool> skip_broken_header() {
    const size_t begin = co_await match(tape_, header_begins_);
    if (begin == Literals::kNone) co_return false;
    for (size_t n = 0; n < kMaxName; ++n) {
      const Unit unit = co_await tape_.look(n);
      const bool ends = !is_byte(unit) || (ends_.may_begin(unit) &&
                                           co_await find_at(tape_, ends_, n) != Literals::kNone);
      if (!ends) continue;
      tape_.take(n);
      break;
    }
    co_return true;
  }

  Task<bool> read_body(const Header& header) {
    std::optional<std::string> tool = tool_of(header.recipient);
    if (tool && parses_calls_) {
      const bool is_call = co_await read_call(*tool);
      if (is_call) co_return true;
      co_return co_await say_body(EventKind::kText);
    }
    const bool is_hidden = !header.recipient.empty() && !tool;
    if (is_hidden) co_return co_await skip_body();
    const bool is_thinking = header.channel == "analysis";
    co_return co_await say_body(is_thinking && !tool ? EventKind::kThinking : EventKind::kText);
  }

  // Returns the own name of the tool that a recipient means.
  std::optional<std::string> tool_of(std::string_view recipient) const {
    const bool is_function = recipient.starts_with(kFunctions);
    if (is_function) recipient.remove_prefix(kFunctions.size());
    if (recipient.empty()) return std::nullopt;
    const std::vector<std::string>& names = answer_.tools.names();
    for (size_t i = 0; i < names.size(); ++i)
      if (known_as_[i] == recipient || names[i] == recipient) return names[i];
    if (is_function) return std::string(recipient);
    return std::nullopt;
  }

  // Reads the arguments of a call up to the end of the message.
  Task<bool> read_call(const std::string& tool) {
    Attempt attempt(answer_, Attempt::Kind::kLoose);
    CallWriter call(answer_);
    co_await skip_blanks(tape_);
    bool is_good = call.name(tool);
    const bool is_empty = co_await is_body_end();
    if (is_good && !is_empty) is_good = co_await copy_json(tape_, call, body_ends_);
    if (is_good) co_await skip_blanks(tape_);
    is_good = is_good && co_await is_body_end();
    if (!is_good && call.has_spoken() && !tape_.has_met_cut()) {
      // The beginning of the call is already reported, so the text of its body comes unchanged.
      const std::string rest = co_await take_until(tape_, body_ends_);
      call.append(rest);
      is_good = co_await is_body_end();
    }
    if (is_good && call.end()) {
      attempt.accept();
      co_return true;
    }
    co_return give_up(answer_, call, attempt) != Found::kNothing;
  }

  Task<bool> is_body_end() {
    const Unit unit = co_await tape_.look();
    if (unit == kEnd) co_return !tape_.is_cut();
    if (!body_ends_.may_begin(unit)) co_return false;
    co_return co_await find_at(tape_, body_ends_) != Literals::kNone;
  }

  Task<bool> say_body(EventKind kind) {
    const bool is_thinking = kind == EventKind::kThinking;
    if (is_thinking) co_await skip_blanks(tape_);
    for (;;) {
      const Unit unit = co_await tape_.look();
      if (!is_byte(unit)) break;
      if (body_ends_.may_begin(unit) && co_await find_at(tape_, body_ends_) != Literals::kNone)
        break;
      if (tape_.position() >= answer_.n_prefix) answer_.output.say(kind, byte_of(unit));
      tape_.take();
    }
    if (is_thinking) answer_.output.drop_blanks();
    co_return true;
  }

  Task<bool> skip_body() {
    for (;;) {
      const Unit unit = co_await tape_.look();
      if (!is_byte(unit)) co_return true;
      if (body_ends_.may_begin(unit) && co_await find_at(tape_, body_ends_) != Literals::kNone)
        co_return true;
      tape_.take();
    }
  }

  Answer& answer_;
  Tape& tape_;
  const bool parses_calls_;
  const Literals message_;
  const Literals ends_;
  const Literals header_begins_;
  const Literals header_ends_;
  const Literals body_ends_;
  const std::vector<std::string> known_as_;
  bool is_first_ = true;
};

}  // namespace

bool is_harmony(const Format& format) {
  return std::ranges::any_of(format.calls, [](const CallForm& form) {
    return std::holds_alternative<HarmonyCalls>(form);
  });
}

std::vector<std::string> harmony_names(std::span<const std::string> names) {
  std::vector<std::string> made;
  std::set<std::string, std::less<>> taken;
  for (const std::string& name : names) {
    const bool is_builtin = name == "python" || name.starts_with("browser.");
    const std::string wanted = is_builtin ? name : identifier(name);
    std::string free = wanted;
    for (int n = 2; taken.contains(free); ++n) free = wanted + "_" + std::to_string(n);
    taken.insert(free);
    made.push_back(std::move(free));
  }
  return made;
}

Task<bool> read_harmony(Answer& answer, bool parses_calls) {
  HarmonyReader reader(answer, parses_calls);
  co_return co_await reader.read();
}

}  // namespace billow::output
