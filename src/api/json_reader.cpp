#include "api/json_reader.h"

#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/go_text.h"
#include "base/json.h"
#include "base/utf8.h"
#include "http/status.h"

namespace billow::api {
namespace {

constexpr std::string_view kBeginningOfValue = "looking for beginning of value";
constexpr char32_t kReplacement = 0xFFFD;

bool is_space(char c) noexcept { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool is_digit(char c) noexcept { return c >= '0' && c <= '9'; }

using Member = std::pair<std::string, Json>;

[[noreturn]] void refuse(const std::string& text) { throw http::StatusError(400, text); }

[[noreturn]] void refuse_length() {
  throw http::StatusError(413, "an array of the request has more than " +
                                   std::to_string(kMaxJsonElements) +
                                   " elements; send fewer per request");
}

// Quotes the byte as if it were the code point with that number.
std::string quoted(char c) {
  if (c == '\'') return R"('\'')";
  if (c == '"') return R"('"')";
  std::string character;
  utf8::append(character, static_cast<unsigned char>(c));
  const std::string text = go_quoted(character);
  return "'" + text.substr(1, text.size() - 2) + "'";
}

std::optional<unsigned> hex_value(char c) noexcept {
  if (is_digit(c)) return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a') + 10;
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A') + 10;
  return std::nullopt;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Json read() {
    skip_spaces();
    if (at_ == text_.size()) refuse("missing request body");
    return value(0);
  }

 private:
  // Returns the current byte.
  char here() const {
    if (at_ == text_.size()) refuse("unexpected EOF");
    return text_[at_];
  }
  [[noreturn]] void fault(std::string_view context) const {
    refuse("invalid character " + quoted(here()) + " " + std::string(context));
  }
  void skip_spaces() noexcept {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  char next_mark() {
    skip_spaces();
    return here();
  }

  Json value(size_t depth);
  Json object(size_t depth);
  Json array(size_t depth);
  Json literal(std::string_view word, Json value);
  Json number();
  void digits(std::string_view context);
  std::string string();
  void escape(std::string& out);
  char32_t code_unit();
  void enter(size_t depth) const {
    if (depth >= kMaxJsonDepth) fault("exceeded max depth");
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t n_values_ = 0;
};

Json Reader::value(size_t depth) {
  const char c = next_mark();
  if (++n_values_ > kMaxJsonValues) {
    refuse("the request has more than " + std::to_string(kMaxJsonValues) + " JSON values");
  }
  switch (c) {
    case '{':
      return object(depth);
    case '[':
      return array(depth);
    case '"':
      return string();
    case 't':
      return literal("true", true);
    case 'f':
      return literal("false", false);
    case 'n':
      return literal("null", nullptr);
    default:
      break;
  }
  if (c == '-' || is_digit(c)) return number();
  fault(kBeginningOfValue);
}

Json object_of(std::vector<Member>&& members) {
  Json::object_t object;
  object.reserve(members.size());  // otherwise it copies all members each time it grows
  for (Member& member : members) {
    object.emplace_back(std::move(member.first), std::move(member.second));
  }
  return object;
}

// An object may have many members, so a table finds them by name.
Json Reader::object(size_t depth) {
  enter(depth);
  ++at_;
  if (next_mark() == '}') {
    ++at_;
    return Json::object();
  }
  std::vector<Member> members;
  std::unordered_map<std::string, size_t> places;
  for (;;) {
    if (next_mark() != '"') fault("looking for beginning of object key string");
    std::string name = string();
    if (next_mark() != ':') fault("after object key");
    ++at_;
    Json member = value(depth + 1);
    const auto [place, is_new] = places.try_emplace(name, members.size());
    if (is_new) {
      if (members.size() == kMaxJsonMembers) {
        refuse("an object has more than " + std::to_string(kMaxJsonMembers) + " members");
      }
      members.emplace_back(std::move(name), std::move(member));
    } else {
      members[place->second].second = std::move(member);
    }
    const char c = next_mark();
    if (c != ',' && c != '}') fault("after object key:value pair");
    ++at_;
    if (c == '}') return object_of(std::move(members));
  }
}

Json Reader::array(size_t depth) {
  enter(depth);
  ++at_;
  Json::array_t elements;
  if (next_mark() == ']') {
    ++at_;
    return elements;
  }
  for (;;) {
    elements.push_back(value(depth + 1));
    if (elements.size() > kMaxJsonElements && !elements.back().is_number()) refuse_length();
    const char c = next_mark();
    if (c != ',' && c != ']') fault("after array element");
    ++at_;
    if (c == ']') return elements;
  }
}

Json Reader::literal(std::string_view word, Json value) {
  for (const char expected : word) {
    if (here() != expected) {
      fault("in literal " + std::string(word) + " (expecting '" + expected + "')");
    }
    ++at_;
  }
  return value;
}

// Skips one or more digits.
void Reader::digits(std::string_view context) {
  if (!is_digit(here())) fault(context);
  while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
}

Json Reader::number() {
  const size_t begin = at_;
  const auto follows = [&](std::string_view any_of) {
    return at_ < text_.size() && any_of.find(text_[at_]) != std::string_view::npos;
  };
  bool is_whole = true;
  if (follows("-")) ++at_;
  if (here() == '0') {
    ++at_;
  } else {
    digits("in numeric literal");
  }
  if (follows(".")) {
    ++at_;
    is_whole = false;
    digits("after decimal point in numeric literal");
  }
  if (follows("eE")) {
    ++at_;
    is_whole = false;
    if (here() == '+' || here() == '-') ++at_;
    digits("in exponent of numeric literal");
  }
  const std::string word(text_.substr(begin, at_ - begin));
  const char* const end = word.data() + word.size();
  if (is_whole) {
    int64_t whole = 0;
    if (std::from_chars(word.data(), end, whole).ec == std::errc()) return whole;
    uint64_t large = 0;
    if (std::from_chars(word.data(), end, large).ec == std::errc()) return large;
  }
  // Unlike from_chars, strtod distinguishes too small from too large numbers.
  const double real = std::strtod(word.c_str(), nullptr);
  if (!std::isfinite(real)) {
    refuse("json: cannot unmarshal number " + word.substr(0, 100) +
           " into Go value of type float64");
  }
  return real;
}

std::string Reader::string() {
  ++at_;
  std::string out;
  for (;;) {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
           static_cast<unsigned char>(text_[at_]) >= 0x20) {
      ++at_;
    }
    const std::string_view plain = text_.substr(begin, at_ - begin);
    if (utf8::is_valid(plain)) {
      out += plain;
    } else {
      out += utf8::sanitized(plain);
    }
    const char c = here();
    if (c == '"') break;
    if (c != '\\') fault("in string literal");
    ++at_;
    escape(out);
  }
  ++at_;
  return out;
}

void Reader::escape(std::string& out) {
  constexpr std::string_view kMarks = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const char c = here();
  if (const size_t known = kMarks.find(c); known != std::string_view::npos) {
    out += kMeanings[known];
    ++at_;
    return;
  }
  if (c != 'u') fault("in string escape code");
  ++at_;
  const char32_t unit = code_unit();
  if (unit < 0xD800 || unit > 0xDFFF) {
    utf8::append(out, unit);
    return;
  }
  // A surrogate is half of a pair. With the other half after it, it is a character.
  if (unit <= 0xDBFF && text_.substr(at_).starts_with("\\u")) {
    const size_t after_first = at_;
    at_ += 2;
    const char32_t second = code_unit();
    if (second >= 0xDC00 && second <= 0xDFFF) {
      utf8::append(out, 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00));
      return;
    }
    at_ = after_first;
  }
  utf8::append(out, kReplacement);
}

char32_t Reader::code_unit() {
  char32_t unit = 0;
  for (int i = 0; i < 4; ++i) {
    const auto digit = hex_value(here());
    if (!digit) fault("in \\u hexadecimal character escape");
    unit = unit * 16 + *digit;
    ++at_;
  }
  return unit;
}

}  // namespace

Json read_json(std::string_view text) { return Reader(text).read(); }

std::optional<Json> read_inner_json(std::string_view text) {
  Json values;
  try {
    values = read_json("[" + std::string(text) + "]");  // in brackets, so that nothing may follow
  } catch (const http::StatusError&) {
    return std::nullopt;
  }
  if (values.size() != 1) return std::nullopt;
  return std::move(values[0]);
}

}  // namespace billow::api
