#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "prompt/go/print.h"

namespace billow::prompt::go {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdef";

void append_escape(BudgetedText& out, char32_t value) {
  const std::array<char, 6> escape{'\\',
                                   'u',
                                   kHexDigits[value >> 12 & 15],
                                   kHexDigits[value >> 8 & 15],
                                   kHexDigits[value >> 4 & 15],
                                   kHexDigits[value & 15]};
  out.append({escape.data(), escape.size()});
}

// Returns the letter of the two-character escape of `value`, or 0 if there is none.
char short_escape(char32_t value) {
  switch (value) {
    case '"':
    case '\\':
      return static_cast<char>(value);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

bool needs_escape(char32_t value) {
  return value < 0x20 || value == '<' || value == '>' || value == '&' || value == 0x2028 ||
         value == 0x2029;
}

void append_json_text(BudgetedText& out, std::string_view text) {
  out.append("\"");
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const utf8::CodePoint point = utf8::decode(text.substr(at));
    const char letter = short_escape(point.value);
    if (letter == 0 && point.valid && !needs_escape(point.value)) {
      at += point.n_bytes;
      continue;
    }
    out.append(text.substr(begin, at - begin));
    if (letter != 0) {
      const std::array<char, 2> escape{'\\', letter};
      out.append({escape.data(), escape.size()});
    } else {
      append_escape(out, point.value);
    }
    at += point.n_bytes;
    begin = at;
  }
  out.append(text.substr(begin));
  out.append("\"");
}

// Appends the shortest digits. Uses an exponent below 1e-6 and from 1e21 on, as JavaScript does.
void append_json_number(BudgetedText& out, double value) {
  if (!std::isfinite(value)) return out.append("null");  // templates cannot make such a number
  const double size = std::fabs(value);
  const bool has_exponent = size != 0 && (size < 1e-6 || size >= 1e21);
  std::array<char, 64> digits{};
  const auto end =
      std::to_chars(digits.data(), digits.data() + digits.size(), value,
                    has_exponent ? std::chars_format::scientific : std::chars_format::fixed);
  std::string text(digits.data(), end.ptr);
  const size_t zero = text.find("e-0");
  if (zero != text.npos) text.erase(zero + 2, 1);
  out.append(text);
}

void append_items(BudgetedText& out, const ListView& list) {
  out.append("[");
  for (size_t i = 0; i < list.n_items; ++i) {
    if (i > 0) out.append(",");
    append_json(out, list.first()[i]);
  }
  out.append("]");
}

void append_member(BudgetedText& out, bool& is_first, std::string_view key, const Value& value) {
  out.append(is_first ? "" : ",");
  is_first = false;
  append_json_text(out, key);
  out.append(":");
  append_json(out, value);
}

}  // namespace

void append_json(BudgetedText& out, const Value& value) {
  bool is_first = true;
  if (const auto* truth = value.as_bool()) {
    out.append(*truth ? "true" : "false");
  } else if (const auto* integer = value.as_integer()) {
    out.append(std::to_string(*integer));
  } else if (const auto* number = value.as_number()) {
    append_json_number(out, *number);
  } else if (const auto* text = value.as_text()) {
    append_json_text(out, *text);
  } else if (const auto* list = value.as_list()) {
    const bool is_one_type = value.form() == TextForm::kPropertyType && list->n_items == 1;
    is_one_type ? append_json(out, *list->first()) : append_items(out, *list);
  } else if (const auto* map = value.as_map()) {
    out.append("{");
    for (const auto& [key, item] : map->entries) append_member(out, is_first, key, item);
    out.append("}");
  } else if (const auto* record = value.as_record()) {
    out.append("{");
    for (const auto& [field, item] : record->members) {
      if (field.omit_empty && !item.is_true()) continue;
      append_member(out, is_first, field.json_name, item);
    }
    out.append("}");
  } else {
    out.append("null");
  }
}

}  // namespace billow::prompt::go
