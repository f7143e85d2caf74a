#include "api/json_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>

#include "api/fields.h"
#include "base/json.h"
#include "base/utf8.h"

namespace billow::api {
namespace {

// Writes plain digits from 1e-6 up to 1e21, otherwise an exponent without padding.
template <typename Real>
void append_real(std::string& out, Real value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  const Real size = std::abs(value);
  const bool is_plain = size == 0 || (size >= Real(1e-6) && size < Real(1e21));
  std::array<char, 64> text;
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), value,
                    is_plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string_view digits(text.data(), static_cast<size_t>(end.ptr - text.data()));
  // Write e-09 as e-9.
  const size_t n = digits.size();
  if (!is_plain && n >= 4 && digits[n - 4] == 'e' && digits[n - 3] == '-' && digits[n - 2] == '0') {
    out.append(digits.substr(0, n - 2));
    out += digits[n - 1];
    return;
  }
  out += digits;
}

void append_escape(std::string& out, char32_t c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (const int shift : {12, 8, 4, 0}) out += kDigits[(c >> shift) & 15];
}

// Returns true if a string may contain the byte unescaped.
bool is_plain(char c) noexcept {
  const auto byte = static_cast<unsigned char>(c);
  return byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\' && c != '<' && c != '>' && c != '&';
}

void append_character(std::string& out, const utf8::CodePoint& point, std::string_view bytes) {
  constexpr std::string_view kShort = "\"\\\b\f\n\r\t";
  constexpr std::string_view kMarks = "\"\\bfnrt";
  const char32_t c = point.value;
  const bool is_break = !point.valid || c == 0x2028 || c == 0x2029;
  if (!is_break && (c >= 0x80 || is_plain(static_cast<char>(c)))) {
    out += bytes;
    return;
  }
  const size_t at = c < 0x80 ? kShort.find(static_cast<char>(c)) : std::string_view::npos;
  if (at == std::string_view::npos) {
    append_escape(out, c);
    return;
  }
  out += '\\';
  out += kMarks[at];
}

}  // namespace

void append_number(std::string& out, double value) { append_real(out, value); }
void append_number(std::string& out, float value) { append_real(out, value); }

void append_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    size_t n = 0;
    while (n < text.size() && is_plain(text[n])) ++n;
    out += text.substr(0, n);
    text.remove_prefix(n);
    if (text.empty()) break;
    const utf8::CodePoint point = utf8::decode(text);
    append_character(out, point, text.substr(0, point.n_bytes));
    text.remove_prefix(point.n_bytes);
  }
  out += '"';
}

void append_json(std::string& out, const Json& value) {
  const char* separator = "";
  switch (value.type()) {
    case Json::value_t::object:
      out += '{';
      for (const auto& [name, member] : value.items()) {
        out += separator;
        separator = ",";
        append_string(out, name);
        out += ':';
        append_json(out, member);
      }
      out += '}';
      break;
    case Json::value_t::array:
      out += '[';
      for (const Json& element : value) {
        out += separator;
        separator = ",";
        append_json(out, element);
      }
      out += ']';
      break;
    case Json::value_t::string:
      append_string(out, value.get_ref<const std::string&>());
      break;
    case Json::value_t::number_float:
      append_number(out, value.get<double>());
      break;
    case Json::value_t::number_integer:
      out += std::to_string(value.get<int64_t>());
      break;
    case Json::value_t::number_unsigned:
      out += std::to_string(value.get<uint64_t>());
      break;
    case Json::value_t::boolean:
      out += value.get<bool>() ? "true" : "false";
      break;
    default:
      out += "null";
      break;
  }
}

std::string to_text(const Json& value) {
  std::string out;
  append_json(out, value);
  return out;
}

}  // namespace billow::api
