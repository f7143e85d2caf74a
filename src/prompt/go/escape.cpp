#include <array>
#include <cstdio>
#include <string>

#include "base/go_text.h"
#include "base/utf8.h"
#include "prompt/go/functions.h"
#include "prompt/go/print.h"

namespace billow::prompt::go {
namespace {

// Joins the arguments like print, but shows nil as the output of a template does.
std::string joined(Call& call) {
  for (Value& value : call.arguments) {
    if (value.is_nil()) value = Value::text("<no value>");
  }
  BudgetedText out(call.budget);
  append_print(out, call.arguments);
  return out.take();
}

std::string_view html_escape(char byte) {
  switch (byte) {
    case '\0':
      return "\xEF\xBF\xBD";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    default:
      return "";
  }
}

std::string hex_code(const char* before, unsigned value) {
  std::array<char, 16> code{};
  std::snprintf(code.data(), code.size(), "%04X", value);
  return std::string(before) + code.data();
}

std::string js_escape(std::string_view character, const utf8::CodePoint& point) {
  switch (point.value) {
    case '\\':
      return "\\\\";
    case '\'':
      return "\\'";
    case '"':
      return "\\\"";
    case '<':
    case '>':
    case '&':
    case '=':
      return hex_code("\\u", static_cast<unsigned>(point.value));
    default:
      break;
  }
  const bool is_plain =
      point.value < 0x80 ? point.value >= ' ' : point.valid && is_go_printable(point.value);
  // An invalid byte prints unchanged, because it decodes to U+FFFD, which is printable.
  return is_plain || !point.valid ? std::string(character)
                                  : hex_code("\\u", static_cast<unsigned>(point.value));
}

bool is_unreserved(char byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '_' || byte == '.' || byte == '~';
}

}  // namespace

Value call_html(Call& call) {
  BudgetedText out(call.budget);
  for (const char byte : joined(call)) {
    const std::string_view escape = html_escape(byte);
    out.append(escape.empty() ? std::string_view(&byte, 1) : escape);
  }
  return Value::text(out.take());
}

Value call_js(Call& call) {
  BudgetedText out(call.budget);
  const std::string text = joined(call);
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const utf8::CodePoint point = utf8::decode(rest);
    out.append(js_escape(rest.substr(0, point.n_bytes), point));
    at += point.n_bytes;
  }
  return Value::text(out.take());
}

Value call_urlquery(Call& call) {
  BudgetedText out(call.budget);
  for (const char byte : joined(call)) {
    if (is_unreserved(byte)) {
      out.append({&byte, 1});
    } else if (byte == ' ') {
      out.append("+");
    } else {
      const std::string code = hex_code("", static_cast<unsigned char>(byte));
      out.append("%" + code.substr(2));
    }
  }
  return Value::text(out.take());
}

}  // namespace billow::prompt::go
