#include "output/json_copy.h"

#include <array>
#include <utility>

#include "base/utf8.h"
#include "output/values.h"

namespace billow::output {
namespace {

constexpr size_t kMaxNumber = 512;  // bytes

int hex_value(Unit unit) {
  if (is_digit(unit)) return unit - u'0';
  if (unit >= u'a' && unit <= u'f') return unit - u'a' + 10;
  if (unit >= u'A' && unit <= u'F') return unit - u'A' + 10;
  return -1;
}

// Returns the number of four hex digits, `ahead` on the tape; nullopt if they are not hex digits.
Task<std::optional<char32_t>> look_at_hex(Tape& tape, size_t ahead) {
  char32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    const int digit = hex_value(co_await tape.look(ahead + i));
    if (digit < 0) co_return std::nullopt;
    value = value * 16 + static_cast<char32_t>(digit);
  }
  co_return value;
}

bool is_escape(Unit unit) {
  return is_byte(unit) && unit < 0x80 &&
         std::string_view("\"\\/bfnrt").find(byte_of(unit)) != std::string_view::npos;
}

// Copies an escape, beginning at its backslash.
Task<bool> copy_escape(Tape& tape, TextSink& to) {
  const Unit next = co_await tape.look(1);
  if (!is_byte(next)) co_return false;
  if (next == u'u') {
    const bool is_code = (co_await look_at_hex(tape, 2)).has_value();
    if (is_code) {
      std::string text = "\\u";
      for (size_t i = 2; i < 6; ++i) text += byte_of(co_await tape.look(i));
      to.append(text);
      tape.take(6);
      co_return true;
    }
  }
  if (is_escape(next)) {
    const char text[] = {'\\', byte_of(next)};
    to.append({text, 2});
    tape.take(2);
  } else if (next == u'\'') {
    to.append("'");
    tape.take(2);
  } else {
    to.append("\\\\");
    tape.take();
  }
  co_return true;
}

Task<bool> copy_string(Tape& tape, TextSink& to) {
  const Unit quote = co_await tape.look();
  tape.take();
  to.append("\"");
  for (;;) {
    const Unit unit = co_await tape.look();
    if (!is_byte(unit)) co_return false;
    if (unit == u'\\') {
      const bool is_whole = co_await copy_escape(tape, to);
      if (!is_whole) co_return false;
      continue;
    }
    tape.take();
    if (unit == quote) break;
    const char byte = byte_of(unit);
    const bool is_strict = static_cast<unsigned char>(byte) >= 0x20 && byte != '"';
    std::string escaped;
    if (!is_strict) append_escaped(escaped, {&byte, 1});
    to.append(is_strict ? std::string_view(&byte, 1) : escaped);
  }
  to.append("\"");
  co_return true;
}

// Copies a number, or a word that is a value.
Task<bool> copy_word(Tape& tape, TextSink& to) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kWords = {
      {{"true", "true"},
       {"false", "false"},
       {"null", "null"},
       {"True", "true"},
       {"False", "false"},
       {"None", "null"}}};
  std::string text;
  for (;;) {
    const Unit unit = co_await tape.look(text.size());
    const bool is_part = is_letter(unit) || is_digit(unit) || unit == u'.' || unit == u'-' ||
                         unit == u'+' || unit == u'_';
    if (!is_part || text.size() > kMaxNumber) break;
    text += byte_of(unit);
  }
  const bool is_at_cut = tape.is_cut() && co_await tape.look(text.size()) == kEnd;
  if (is_at_cut) tape.take(text.size());  // part of the call, but its value is unknown
  if (text.empty() || is_at_cut) co_return false;
  std::string_view found;
  for (const auto& [word, json] : kWords)
    if (word == text) found = json;
  if (found.empty() && (is_letter(static_cast<unsigned char>(text[0])) || !is_json(text)))
    co_return false;
  to.append(found.empty() ? std::string_view(text) : found);
  tape.take(text.size());
  co_return true;
}

Task<bool> copy_blanks(Tape& tape, TextSink& to) {
  std::string blanks;
  for (Unit unit = co_await tape.look(); is_blank(unit); unit = co_await tape.look()) {
    // JSON does not allow \v and \f, so both become spaces.
    blanks += unit == u'\v' || unit == u'\f' ? ' ' : byte_of(unit);
    tape.take();
  }
  if (!blanks.empty()) to.append(blanks);
  co_return true;
}

// Returns whether the text ends here, so that open brackets must be closed.
Task<bool> is_over(Tape& tape, const Literals& closers) {
  const Unit unit = co_await tape.look();
  if (unit == kEnd) co_return !tape.is_cut();
  if (!closers.may_begin(unit)) co_return false;
  const size_t closer = co_await find_at(tape, closers);
  co_return closer != Literals::kNone;
}

Task<bool> copy_key(Tape& tape, TextSink& to) {
  const Unit unit = co_await tape.look();
  if (unit != u'"' && unit != u'\'') co_return false;
  const bool is_whole = co_await copy_string(tape, to);
  if (!is_whole) co_return false;
  co_await copy_blanks(tape, to);
  if (co_await tape.look() != u':') co_return false;
  tape.take();
  to.append(":");
  co_await copy_blanks(tape, to);
  co_return true;
}

// Copies an array or an object.
Task<bool> copy_members(Tape& tape, TextSink& to, const Literals& closers, int depth) {
  const bool is_object = co_await tape.look() == u'{';
  const Unit close = is_object ? u'}' : u']';
  const std::string_view close_text = is_object ? "}" : "]";
  tape.take();
  to.append(is_object ? "{" : "[");
  bool needs_comma = false;
  for (;;) {
    // The text between two members waits until a second member is certain.
    StringSink between;
    co_await copy_blanks(tape, between);
    bool has_comma = false;
    if (needs_comma && co_await tape.look() == u',') {
      tape.take();
      has_comma = true;
      between.append(",");
      co_await copy_blanks(tape, between);
    }
    const Unit unit = co_await tape.look();
    const bool ends = unit == close || co_await is_over(tape, closers);
    if (ends) {
      if (!has_comma) to.append(between.text);
      if (unit == close) tape.take();
      to.append(close_text);
      co_return true;
    }
    if (needs_comma && !has_comma) co_return false;
    if (!between.text.empty()) to.append(between.text);
    if (is_object) {
      const bool has_key = co_await copy_key(tape, to);
      if (!has_key) co_return false;
    }
    const bool has_value = co_await copy_json(tape, to, closers, depth + 1);
    if (!has_value) co_return false;
    needs_comma = true;
  }
}

// Copies a value; returns whether nothing else follows.
Task<bool> copy_whole(Tape& tape, TextSink& to) {
  const Literals no_closers;
  const bool is_value = co_await copy_json(tape, to, no_closers);
  co_await skip_blanks(tape);
  co_return is_value&& co_await tape.look() == kEnd;
}

}  // namespace

Task<bool> copy_json(Tape& tape, TextSink& to, const Literals& closers, int depth) {
  const Unit unit = co_await tape.look();
  bool is_value = false;
  if (unit == u'"' || unit == u'\'') {
    is_value = co_await copy_string(tape, to);
  } else if (unit == u'{' || unit == u'[') {
    if (depth < kMaxJsonDepth) is_value = co_await copy_members(tape, to, closers, depth);
  } else {
    is_value = co_await copy_word(tape, to);
  }
  co_return is_value;
}

Task<bool> read_string(Tape& tape, std::string& out) {
  const Unit quote = co_await tape.look();
  if (quote != u'"' && quote != u'\'') co_return false;
  tape.take();
  for (;;) {
    const Unit unit = co_await tape.look();
    if (!is_byte(unit)) co_return false;
    tape.take();
    if (unit == quote) co_return true;
    if (unit != u'\\') {
      out += byte_of(unit);
      continue;
    }
    const Unit next = co_await tape.look();
    if (!is_byte(next)) co_return false;
    constexpr std::string_view kNames = "bfnrt";
    constexpr std::string_view kMeanings = "\b\f\n\r\t";
    const size_t named = next < 0x80 ? kNames.find(byte_of(next)) : kNames.npos;
    if (named != kNames.npos) {
      out += kMeanings[named];
    } else if (next == u'u') {
      std::optional<char32_t> code = co_await look_at_hex(tape, 1);
      if (!code) {
        out += "\\u";
      } else {
        tape.take(4);
        const bool is_high = *code >= 0xD800 && *code < 0xDC00;
        if (is_high && co_await tape.look(1) == u'\\' && co_await tape.look(2) == u'u') {
          const std::optional<char32_t> low = co_await look_at_hex(tape, 3);
          if (low && *low >= 0xDC00 && *low < 0xE000) {
            code = 0x10000 + ((*code - 0xD800) << 10U) + (*low - 0xDC00);
            tape.take(6);
          }
        }
        const bool is_half = *code >= 0xD800 && *code < 0xE000;
        utf8::append(out, is_half ? U'\xFFFD' : *code);
      }
    } else if (next == u'"' || next == u'\'' || next == u'\\' || next == u'/') {
      out += byte_of(next);
    } else {
      out += '\\';
      out += byte_of(next);
    }
    tape.take();
  }
}

Task<bool> take_fence(Tape& tape) {
  static const Literals kFences(std::vector<std::string>{"```json", "```"}, {});
  const size_t fence = co_await match(tape, kFences);
  if (fence != Literals::kNone) co_await skip_blanks(tape);
  co_return fence != Literals::kNone;
}

Task<bool> take_fence_end(Tape& tape) {
  static const Literals kFences(std::vector<std::string>{"```"}, {});
  const size_t n_blanks = co_await count_blanks(tape);
  const size_t fence = co_await find_at(tape, kFences, n_blanks);
  if (fence != Literals::kNone) tape.take(n_blanks + kFences[fence].size());
  co_return fence != Literals::kNone;
}

std::optional<std::string> repaired_json(std::string_view text) {
  Tape tape;
  tape.append(text, 0, 0);
  tape.end(FinishReason::kStop);
  StringSink sink;
  Task<bool> task = copy_whole(tape, sink);
  TaskStack stack;
  task.put_on(stack);
  tape.run(stack);
  if (!task.result()) return std::nullopt;
  return std::move(sink.text);
}

}  // namespace billow::output
