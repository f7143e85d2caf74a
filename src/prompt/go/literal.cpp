#include "prompt/go/literal.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/utf8.h"

namespace billow::prompt::go {
namespace {

bool is_alnum(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

// Removes underscores. They are allowed only between digits; nullopt if one is elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      digits += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_alnum(text[i - 1]) || !is_alnum(text[i + 1])) {
      return std::nullopt;
    }
  }
  return digits;
}

// Removes the prefix of `digits` that names a base. Returns the base.
int take_base(std::string_view& digits) {
  if (digits.size() < 2 || digits[0] != '0') return 10;
  const char letter = static_cast<char>(digits[1] | 0x20);
  const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
  digits.remove_prefix(base == 0 ? 1 : 2);
  return base == 0 ? 8 : base;
}

template <typename Number, typename... Base>
std::optional<Number> parse_all(std::string_view digits, Base... base) {
  Number value{};
  const char* const begin = digits.data();
  const char* const end = begin + digits.size();
  const auto done = std::from_chars(begin, end, value, base...);
  if (digits.empty() || done.ec != std::errc{} || done.ptr != end) return std::nullopt;
  return value;
}

std::optional<Value> integer(std::string_view digits, bool is_negative) {
  const int base = take_base(digits);
  const auto size = parse_all<uint64_t>(digits, base);
  constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  if (!size || *size > kMax + (is_negative ? 1 : 0)) return std::nullopt;
  return Value::integer(static_cast<int64_t>(is_negative ? uint64_t{0} - *size : *size));
}

std::optional<Value> floating(std::string_view digits, bool is_negative) {
  const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
  if (is_hex) digits.remove_prefix(2);
  // Rejects texts that from_chars also accepts: "inf", "nan", a sign.
  const bool begins = !digits.empty() && (digits[0] == '.' || is_alnum(digits[0]));
  if (!begins || (!is_hex && digits[0] > '9')) return std::nullopt;
  const auto size =
      parse_all<double>(digits, is_hex ? std::chars_format::hex : std::chars_format::general);
  if (!size || !std::isfinite(*size)) return std::nullopt;
  return Value::number(is_negative ? -*size : *size);
}

struct Escaped {
  char32_t value;
  bool is_byte;  // from \x or octal digits: one byte of the text
};

// Removes `n` digits from the start of `rest` and returns their value.
std::optional<char32_t> take_digits(std::string_view& rest, size_t n, int base) {
  if (rest.size() < n) return std::nullopt;
  const auto value = parse_all<uint32_t>(rest.substr(0, n), base);
  rest.remove_prefix(n);
  if (!value) return std::nullopt;
  return static_cast<char32_t>(*value);
}

// Removes the part of an escape after the backslash from `rest` and returns its value.
std::optional<Escaped> take_escape(std::string_view& rest, char quote) {
  if (rest.empty()) return std::nullopt;
  const char letter = rest[0];
  constexpr std::string_view kLetters = "abfnrtv\\";
  constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v\\";
  if (letter >= '0' && letter <= '7') {
    const auto value = take_digits(rest, 3, 8);
    if (!value || *value > 0xFF) return std::nullopt;
    return Escaped{*value, true};
  }
  rest.remove_prefix(1);
  if (letter == quote) return Escaped{static_cast<unsigned char>(quote), false};
  const size_t at = kLetters.find(letter);
  if (at != kLetters.npos) return Escaped{static_cast<unsigned char>(kMeanings[at]), false};
  const size_t n_digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
  if (n_digits == 0) return std::nullopt;
  const auto value = take_digits(rest, n_digits, 16);
  const bool is_surrogate = value && n_digits > 2 && *value >= 0xD800 && *value < 0xE000;
  if (!value || *value > 0x10FFFF || is_surrogate) return std::nullopt;
  return Escaped{*value, n_digits == 2};
}

}  // namespace

std::optional<Value> parse_number(std::string_view literal) {
  const bool is_negative = literal.starts_with('-');
  if (is_negative || literal.starts_with('+')) literal.remove_prefix(1);
  const auto digits = without_underscores(literal);
  if (!digits) return std::nullopt;
  const bool is_hex = digits->starts_with("0x") || digits->starts_with("0X");
  const char* const marks = is_hex ? "pP" : ".eEpP";
  const bool is_floating = digits->find_first_of(marks) != std::string::npos;
  return is_floating ? floating(*digits, is_negative) : integer(*digits, is_negative);
}

std::optional<Value> parse_rune(std::string_view literal) {
  if (literal.size() < 3) return std::nullopt;
  std::string_view rest = literal.substr(1, literal.size() - 2);
  char32_t value = 0;
  if (rest.starts_with('\\')) {
    rest.remove_prefix(1);
    const auto escaped = take_escape(rest, '\'');
    if (!escaped) return std::nullopt;
    value = escaped->value;
  } else {
    const utf8::CodePoint point = utf8::decode(rest);
    value = point.value;
    rest.remove_prefix(point.n_bytes);
  }
  if (!rest.empty()) return std::nullopt;
  return Value::integer(static_cast<int64_t>(value));
}

std::optional<std::string> parse_string(std::string_view literal) {
  if (literal.size() < 2) return std::nullopt;
  std::string_view rest = literal.substr(1, literal.size() - 2);
  std::string text;
  if (literal[0] == '`') {
    std::copy_if(rest.begin(), rest.end(), std::back_inserter(text),
                 [](char c) { return c != '\r'; });
    return text;
  }
  while (!rest.empty()) {
    const size_t n = std::min(rest.find('\\'), rest.size());
    text += rest.substr(0, n);
    rest.remove_prefix(n);
    if (rest.empty()) break;
    rest.remove_prefix(1);
    const auto escaped = take_escape(rest, '"');
    if (!escaped) return std::nullopt;
    if (escaped->is_byte) {
      text += static_cast<char>(static_cast<unsigned char>(escaped->value));
    } else {
      utf8::append(text, escaped->value);
    }
  }
  return text;
}

}  // namespace billow::prompt::go
