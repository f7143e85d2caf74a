#include "store/modelfile.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

#include "base/error.h"
#include "base/text.h"
#include "base/utf8.h"
#include "store/name.h"

namespace billow::store {
namespace {

struct Word {
  InstructionKind kind;
  std::string_view text;
};
// The error message of an unknown instruction lists the instructions in this order.
constexpr std::array<Word, 11> kWords{{
    {InstructionKind::kFrom, "FROM"},
    {InstructionKind::kLicense, "LICENSE"},
    {InstructionKind::kTemplate, "TEMPLATE"},
    {InstructionKind::kSystem, "SYSTEM"},
    {InstructionKind::kAdapter, "ADAPTER"},
    {InstructionKind::kDraft, "DRAFT"},
    {InstructionKind::kRenderer, "RENDERER"},
    {InstructionKind::kParser, "PARSER"},
    {InstructionKind::kParameter, "PARAMETER"},
    {InstructionKind::kMessage, "MESSAGE"},
    {InstructionKind::kRequires, "REQUIRES"},
}};

constexpr std::string_view kBlanksOfALine = " \t\r\v\f";

[[noreturn]] void fail(const std::string& message) {
  throw Error(ErrorCode::kInvalidInput, message);
}
[[noreturn]] void fail(size_t line, const std::string& message) {
  fail("(line " + std::to_string(line) + "): " + message);
}
[[noreturn]] void fail_at_end() { fail("unexpected EOF"); }

std::string from_utf16(std::string_view bytes, bool big_endian) {
  std::string text;
  const auto unit = [&](size_t at) {
    const auto first = static_cast<uint8_t>(bytes[at]);
    const auto second = static_cast<uint8_t>(bytes[at + 1]);
    return static_cast<char32_t>(big_endian ? first << 8 | second : second << 8 | first);
  };
  for (size_t at = 0; at < bytes.size(); at += 2) {
    if (at + 1 == bytes.size()) {
      utf8::append(text, U'\uFFFD');
      break;
    }
    char32_t value = unit(at);
    const bool leads = value >= 0xD800 && value < 0xDC00;
    if (leads && at + 3 < bytes.size() && unit(at + 2) >= 0xDC00 && unit(at + 2) < 0xE000) {
      value = 0x10000 + ((value - 0xD800) << 10) + (unit(at + 2) - 0xDC00);
      at += 2;
    } else if (value >= 0xD800 && value < 0xE000) {
      value = 0xFFFD;
    }
    utf8::append(text, value);
  }
  return text;
}

std::string decoded(std::string_view bytes) {
  if (bytes.starts_with("\xFE\xFF")) return from_utf16(bytes.substr(2), true);
  if (bytes.starts_with("\xFF\xFE")) return from_utf16(bytes.substr(2), false);
  if (bytes.starts_with("\xEF\xBB\xBF")) bytes.remove_prefix(3);
  return utf8::sanitized(bytes);
}

// Reads the text in one pass. The position never moves back.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  // Moves to the next instruction, past blank lines and comments. Returns false at the end.
  bool next() {
    for (;;) {
      skip(kBlanks);
      if (at_end()) return false;
      if (text_[at_] != '#') return true;
      take(line_end() - at_);
    }
  }

  // Reads up to the next white space on this line. Returns an empty word at the end of the line.
  std::string_view word() {
    skip(kBlanksOfALine);
    const size_t end = text_.find_first_of(kBlanks, at_);
    return take(std::min(end, text_.size()) - at_);
  }

  // Reads the rest of the line. If it begins with a quote, reads the quoted text, which ends with
  // the same quote at a line's end. Throws Error if the value or the closing quote is missing.
  std::string_view value() {
    skip(kBlanksOfALine);
    for (const std::string_view quote : {"\"\"\"", "\""}) {
      if (text_.substr(at_).starts_with(quote)) return quoted(quote);
    }
    const std::string_view rest = trimmed(take(line_end() - at_));
    if (rest.empty()) {
      if (at_end()) fail_at_end();
      fail(line_, "a value is missing");
    }
    return rest;
  }

  size_t line() const noexcept { return line_; }
  bool at_end() const noexcept { return at_ == text_.size(); }

 private:
  std::string_view quoted(std::string_view quote) {
    const size_t begin = at_;
    while (!at_end()) {
      take(line_end() - at_);
      const std::string_view so_far = trimmed(text_.substr(begin, at_ - begin));
      if (so_far.size() >= 2 * quote.size() && so_far.ends_with(quote)) {
        return so_far.substr(quote.size(), so_far.size() - 2 * quote.size());
      }
      if (!at_end()) take(1);
    }
    fail_at_end();
  }

  size_t line_end() const noexcept { return std::min(text_.find('\n', at_), text_.size()); }
  void skip(std::string_view characters) {
    take(std::min(text_.find_first_not_of(characters, at_), text_.size()) - at_);
  }
  std::string_view take(size_t n) {
    const std::string_view taken = text_.substr(at_, n);
    line_ += static_cast<size_t>(std::ranges::count(taken, '\n'));
    at_ += n;
    return taken;
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t line_ = 1;
};

std::string unknown_word_message() {
  std::string message = "command must be one of ";
  for (const Word& word : kWords) {
    if (&word == &kWords.back()) message += "or ";
    message += '"' + lower_case(word.text) + (&word == &kWords.back() ? "\"" : "\", ");
  }
  return message;
}

Instruction read_instruction(Reader& reader) {
  Instruction instruction;
  instruction.line = reader.line();
  const std::string_view name = reader.word();
  const auto word = std::ranges::find_if(
      kWords, [&](const Word& known) { return equal_ignoring_case(known.text, name); });
  if (word == kWords.end()) fail(instruction.line, unknown_word_message());
  instruction.kind = word->kind;
  if (word->kind == InstructionKind::kParameter || word->kind == InstructionKind::kMessage) {
    instruction.key = reader.word();
    if (instruction.key.empty()) {
      if (reader.at_end()) fail_at_end();
      fail(instruction.line, "a value is missing");
    }
    if (word->kind == InstructionKind::kMessage && !is_role(instruction.key)) {
      fail(std::string(kRoleFault));
    }
  }
  instruction.value = reader.value();
  if (word->kind == InstructionKind::kRequires && !is_version(instruction.value)) {
    fail(std::string(kVersionFault));
  }
  return instruction;
}

std::string quoted(const std::string& value) {
  const bool plain = !value.empty() && value.find('\n') == std::string::npos &&
                     trimmed(value) == value && value.front() != '"';
  if (plain) return value;
  const char* quote = value.find('"') == std::string::npos ? "\"" : "\"\"\"";
  return quote + value + quote;
}

std::string_view take_digits(std::string_view& text) {
  const size_t n = std::min(text.find_first_not_of("0123456789"), text.size());
  const std::string_view digits = text.substr(0, n);
  text.remove_prefix(n);
  return digits;
}

// Returns whether `text` may follow '-' or '+': identifiers separated by dots.
bool is_ending(std::string_view text) noexcept {
  constexpr std::string_view kAllowed =
      "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-.";
  return !text.empty() && text.find_first_not_of(kAllowed) == std::string_view::npos &&
         !text.starts_with('.') && !text.ends_with('.') &&
         text.find("..") == std::string_view::npos;
}

}  // namespace

std::string_view Modelfile::last(InstructionKind kind) const noexcept {
  std::string_view value;
  for (const Instruction& instruction : instructions) {
    if (instruction.kind == kind) value = instruction.value;
  }
  return value;
}

std::vector<std::string> Modelfile::all(InstructionKind kind) const {
  std::vector<std::string> values;
  for (const Instruction& instruction : instructions) {
    if (instruction.kind == kind) values.push_back(instruction.value);
  }
  return values;
}

std::vector<std::pair<std::string, std::string>> Modelfile::parameters() const {
  std::vector<std::pair<std::string, std::string>> values;
  for (const Instruction& instruction : instructions) {
    if (instruction.kind == InstructionKind::kParameter) {
      values.emplace_back(instruction.key, instruction.value);
    }
  }
  return values;
}

Modelfile parse_modelfile(std::string_view bytes) {
  const std::string text = decoded(bytes);
  Reader reader(text);
  Modelfile modelfile;
  while (reader.next()) modelfile.instructions.push_back(read_instruction(reader));
  if (modelfile.last(InstructionKind::kFrom).empty()) fail("no FROM line");
  return modelfile;
}

std::string to_text(const Modelfile& modelfile) {
  std::string text;
  for (const Instruction& instruction : modelfile.instructions) {
    const auto word = std::ranges::find(kWords, instruction.kind, &Word::kind);
    text += word->text;
    text += ' ';
    if (!instruction.key.empty()) text += instruction.key + " ";
    text += quoted(instruction.value) + "\n";
  }
  return text;
}

bool is_version(std::string_view text) noexcept {
  for (int n_numbers = 1;; ++n_numbers) {
    const std::string_view digits = take_digits(text);
    if (digits.empty() || (digits.size() > 1 && digits.front() == '0')) return false;
    if (text.empty()) return true;
    if (n_numbers == 3) break;
    if (text.front() != '.') return false;
    text.remove_prefix(1);
  }
  const size_t plus = std::min(text.find('+'), text.size());
  if (plus < text.size() && !is_ending(text.substr(plus + 1))) return false;
  const std::string_view before = text.substr(0, plus);
  return before.empty() || (before.front() == '-' && is_ending(before.substr(1)));
}

bool is_role(std::string_view text) noexcept {
  return text == "system" || text == "user" || text == "assistant";
}

}  // namespace billow::store
