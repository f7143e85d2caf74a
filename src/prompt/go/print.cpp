#include "prompt/go/print.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "base/go_text.h"
#include "base/utf8.h"

namespace billow::prompt::go {
namespace {

constexpr std::string_view kNil = "<nil>";

size_t n_characters(std::string_view text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size(); ++n) at += utf8::decode(text.substr(at)).n_bytes;
  return n;
}

void append_padded(BudgetedText& out, std::string_view text, const Verb& verb) {
  const size_t n = verb.width > 0 ? n_characters(text) : 0;
  const size_t n_missing = verb.width > 0 && static_cast<size_t>(verb.width) > n
                               ? static_cast<size_t>(verb.width) - n
                               : 0;
  if (!verb.minus) out.append(n_missing, verb.zero ? '0' : ' ');
  out.append(text);
  if (verb.minus) out.append(n_missing, ' ');
}

std::string_view first_characters(std::string_view text, int n) {
  size_t at = 0;
  for (; n > 0 && at < text.size(); --n) at += utf8::decode(text.substr(at)).n_bytes;
  return text.substr(0, at);
}

std::string hex(std::string_view bytes, bool is_upper) {
  const std::string_view digits = is_upper ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += digits[value >> 4];
    text += digits[value & 15];
  }
  return text;
}

void append_bad_verb(BudgetedText& out, const Value& value, Verb verb) {
  std::string name;
  utf8::append(name, verb.letter);
  verb.letter = 'v';
  out.append("%!" + name + "(");
  if (value.is_nil()) {
    out.append(kNil);
  } else {
    out.append(std::string(value.type_name()) + "=");
    append_formatted(out, value, verb);
  }
  out.append(")");
}

void append_text(BudgetedText& out, std::string_view text, const Verb& verb, const Value& value) {
  if (verb.precision >= 0) text = first_characters(text, verb.precision);
  switch (verb.letter) {
    case 'v':
      return append_padded(out, verb.sharp ? go_quoted(text) : text, verb);
    case 's':
      return append_padded(out, text, verb);
    case 'q':
      return append_padded(out, go_quoted(text), verb);
    case 'x':
    case 'X':
      return append_padded(out, hex(text, verb.letter == 'X'), verb);
    default:
      return append_bad_verb(out, value, verb);
  }
}

std::string_view sign(bool is_negative, const Verb& verb) {
  return is_negative ? "-" : verb.plus ? "+" : verb.space ? " " : "";
}

void append_digits(BudgetedText& out, int64_t value, int base, const Verb& verb) {
  const bool is_negative = value < 0;
  const uint64_t size =
      is_negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  std::array<char, 64> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), size, base);
  std::string text(digits.data(), end.ptr);
  if (verb.letter == 'X')
    std::transform(text.begin(), text.end(), text.begin(),
                   [](char c) { return c >= 'a' ? static_cast<char>(c - 'a' + 'A') : c; });
  const std::string_view before = sign(is_negative, verb);
  int n_min = verb.precision;
  if (n_min < 0 && verb.zero && !verb.minus) n_min = verb.width - static_cast<int>(before.size());
  if (verb.precision == 0 && value == 0) text.clear();
  if (n_min > static_cast<int>(text.size())) {
    text.insert(0, static_cast<size_t>(n_min) - text.size(), '0');
  }
  if (verb.sharp && base == 16) text.insert(0, verb.letter == 'X' ? "0X" : "0x");
  if (verb.sharp && base == 8) text.insert(0, "0");
  Verb padding = verb;
  padding.zero = false;
  append_padded(out, std::string(before) + text, padding);
}

void append_character(BudgetedText& out, int64_t value, const Verb& verb) {
  const bool is_character = value >= 0 && value <= 0x10FFFF && (value < 0xD800 || value > 0xDFFF);
  std::string text;
  utf8::append(text, is_character ? static_cast<char32_t>(value) : char32_t{0xFFFD});
  if (verb.letter == 'c') return append_padded(out, text, verb);
  text = go_quoted(text);
  if (text == "\"\\\"\"") text = "\"\"\"";
  if (text == "\"'\"") text = "\"\\'\"";
  text.front() = text.back() = '\'';
  append_padded(out, text, verb);
}

void append_integer(BudgetedText& out, int64_t value, const Verb& verb) {
  switch (verb.letter) {
    case 'v':
    case 'd':
      return append_digits(out, value, 10, verb);
    case 'b':
      return append_digits(out, value, 2, verb);
    case 'o':
      return append_digits(out, value, 8, verb);
    case 'x':
    case 'X':
      return append_digits(out, value, 16, verb);
    case 'U': {
      BudgetedText code(out.budget());
      append_digits(code, value, 16, {.letter = 'X', .precision = std::max(verb.precision, 4)});
      return append_padded(out, "U+" + code.take(), verb);
    }
    case 'c':
    case 'q':
      return append_character(out, value, verb);
    default:
      return append_bad_verb(out, Value::integer(value), verb);
  }
}

std::string float_text(double value, std::chars_format form, int precision) {
  std::string text(static_cast<size_t>(std::max(precision, 0)) + 400, '\0');
  char* const end = text.data() + text.size();
  const auto done = precision < 0 ? std::to_chars(text.data(), end, value, form)
                                  : std::to_chars(text.data(), end, value, form, precision);
  text.resize(static_cast<size_t>(done.ptr - text.data()));
  return text;
}

// Returns the shortest digits, with an exponent below 1e-4 and from 1e6 on.
std::string shortest(double value) {
  std::string text = float_text(value, std::chars_format::scientific, -1);
  const int exponent = std::atoi(text.c_str() + text.find('e') + 1);
  if (exponent >= -4 && exponent < 6) text = float_text(value, std::chars_format::fixed, -1);
  return text;
}

std::string float_digits(double size, const Verb& verb) {
  std::string text;
  switch (verb.letter) {
    case 'e':
    case 'E':
      text =
          float_text(size, std::chars_format::scientific, verb.precision < 0 ? 6 : verb.precision);
      break;
    case 'f':
    case 'F':
      text = float_text(size, std::chars_format::fixed, verb.precision < 0 ? 6 : verb.precision);
      break;
    default:
      text = verb.precision < 0 ? shortest(size)
                                : float_text(size, std::chars_format::general, verb.precision);
  }
  if (verb.letter == 'E' || verb.letter == 'G') {
    std::replace(text.begin(), text.end(), 'e', 'E');
  }
  return text;
}

void append_float(BudgetedText& out, double value, const Verb& verb) {
  if (std::u32string_view(U"veEfFgG").find(verb.letter) == std::u32string_view::npos) {
    return append_bad_verb(out, Value::number(value), verb);
  }
  std::string text = float_digits(std::fabs(value), verb);
  const std::string_view before = sign(std::signbit(value), verb);
  if (verb.zero && !verb.minus && verb.width > 0) {
    const auto width = static_cast<size_t>(verb.width);
    const size_t n = before.size() + text.size();
    if (width > n) text.insert(0, width - n, '0');
  }
  append_padded(out, std::string(before) + text, verb);
}

void append_list(BudgetedText& out, const ListView& list, const Verb& verb) {
  out.append("[");
  for (size_t i = 0; i < list.n_items; ++i) {
    if (i > 0) out.append(" ");
    const Value& item = list.first()[i];
    item.is_nil() ? out.append(kNil) : append_formatted(out, item, verb);
  }
  out.append("]");
}

void append_map(BudgetedText& out, const MapData& map, const Verb& verb) {
  out.append("map[");
  bool is_first = true;
  for (const auto& [key, item] : map.entries) {
    out.append(is_first ? "" : " ");
    is_first = false;
    append_text(out, key, verb, Value::text(key));
    out.append(":");
    item.is_nil() ? out.append(kNil) : append_formatted(out, item, verb);
  }
  out.append("]");
}

void append_record(BudgetedText& out, const RecordData& record, const Verb& verb) {
  out.append("{");
  for (size_t i = 0; i < record.members.size(); ++i) {
    if (i > 0) out.append(" ");
    const Value& item = record.members[i].second;
    item.is_nil() ? out.append(kNil) : append_formatted(out, item, verb);
  }
  out.append("}");
}

// Appends the text of `value` if it has a String method that the verb calls. Returns whether it
// has.
bool append_own_text(BudgetedText& out, const Value& value, const Verb& verb) {
  if (std::u32string_view(U"vsqxX").find(verb.letter) == std::u32string_view::npos) return false;
  BudgetedText own(out.budget());
  if (value.form() == TextForm::kJson) {
    append_json(own, value);
  } else if (const auto* list = value.as_list();
             value.form() == TextForm::kPropertyType && list->n_items <= 1) {
    if (list->n_items == 1) append_formatted(own, *list->first(), {});
  } else {
    return false;
  }
  append_text(out, own.take(), verb, value);
  return true;
}

}  // namespace

void append_formatted(BudgetedText& out, const Value& value, const Verb& verb) {
  if (verb.letter == 'T') {
    return append_padded(out, value.is_nil() ? kNil : value.type_name(), verb);
  }
  if (append_own_text(out, value, verb)) return;
  if (const auto* truth = value.as_bool()) {
    if (verb.letter != 'v' && verb.letter != 't') return append_bad_verb(out, value, verb);
    append_padded(out, *truth ? "true" : "false", verb);
  } else if (const auto* integer = value.as_integer()) {
    append_integer(out, *integer, verb);
  } else if (const auto* number = value.as_number()) {
    append_float(out, *number, verb);
  } else if (const auto* text = value.as_text()) {
    append_text(out, *text, verb, value);
  } else if (const auto* list = value.as_list()) {
    append_list(out, *list, verb);
  } else if (const auto* map = value.as_map()) {
    append_map(out, *map, verb);
  } else if (const auto* record = value.as_record()) {
    append_record(out, *record, verb);
  } else if (verb.letter == 'v') {
    append_padded(out, kNil, verb);
  } else {
    append_bad_verb(out, value, verb);
  }
}

void append_print(BudgetedText& out, const std::vector<Value>& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (i > 0 && !values[i].as_text() && !values[i - 1].as_text()) out.append(" ");
    append_formatted(out, values[i], {});
  }
}

}  // namespace billow::prompt::go
