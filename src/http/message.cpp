#include "http/message.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace billow::http {
namespace {

constexpr std::array<std::string_view, 8> kMethodNames{"GET",   "HEAD",   "POST",    "PUT",
                                                       "PATCH", "DELETE", "OPTIONS", ""};

struct Reason {
  int status;
  std::string_view phrase;
};

constexpr std::array<Reason, 43> kReasons{{
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {499, "Client Closed Request"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
}};

// Returns whether the parameters of an entry have weight 0: "q=0", "level=1; q=0.00".
bool is_no_weight(std::string_view parameters) noexcept {
  for (;;) {
    const size_t semicolon = parameters.find(';');
    std::string_view one = trimmed(parameters.substr(0, semicolon), " \t");
    if (one.size() > 2 && (one[0] == 'q' || one[0] == 'Q') && one[1] == '=')
      return one.find_first_not_of("0.", 2) == std::string_view::npos;
    if (semicolon == std::string_view::npos) return false;
    parameters.remove_prefix(semicolon + 1);
  }
}

}  // namespace

std::string_view method_name(Method method) noexcept {
  return kMethodNames[static_cast<size_t>(method)];
}

Method method_of(std::string_view name) noexcept {
  for (size_t i = 0; i + 1 < kMethodNames.size(); ++i) {
    if (kMethodNames[i] == name) return static_cast<Method>(i);
  }
  return Method::kOther;
}

std::string_view reason_phrase(int status) noexcept {
  for (const Reason& reason : kReasons) {
    if (reason.status == status) return reason.phrase;
  }
  return "Unknown";
}

const std::string* Headers::find(std::string_view name) const noexcept {
  for (const Field& field : fields_) {
    if (equal_ignoring_case(field.name, name)) return &field.value;
  }
  return nullptr;
}

std::string_view Headers::get(std::string_view name) const noexcept {
  const std::string* value = find(name);
  return value != nullptr ? std::string_view(*value) : std::string_view();
}

size_t Headers::count(std::string_view name) const noexcept {
  size_t n = 0;
  for (const Field& field : fields_) n += equal_ignoring_case(field.name, name) ? 1 : 0;
  return n;
}

bool Headers::has_token(std::string_view name, std::string_view token) const noexcept {
  for (const Field& field : fields_) {
    if (!equal_ignoring_case(field.name, name)) continue;
    std::string_view rest = field.value;
    for (;;) {
      const size_t comma = rest.find(',');
      if (equal_ignoring_case(trimmed(rest.substr(0, comma), " \t"), token)) return true;
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

void Headers::add(std::string name, std::string value) {
  fields_.push_back({std::move(name), std::move(value)});
}

void Headers::set(std::string name, std::string value) {
  remove(name);
  add(std::move(name), std::move(value));
}

void Headers::remove(std::string_view name) {
  std::erase_if(fields_, [&](const Field& field) { return equal_ignoring_case(field.name, name); });
}

bool accepts(const Headers& headers, std::string_view name, std::string_view token) noexcept {
  for (const Headers::Field& field : headers) {
    if (!equal_ignoring_case(field.name, name)) continue;
    std::string_view rest = field.value;
    for (;;) {
      const size_t comma = rest.find(',');
      const std::string_view entry = rest.substr(0, comma);
      const size_t semicolon = entry.find(';');
      if (equal_ignoring_case(trimmed(entry.substr(0, semicolon), " \t"), token))
        return semicolon == std::string_view::npos || !is_no_weight(entry.substr(semicolon + 1));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  return false;
}

Response text_response(int status, std::string_view text) {
  return {.status = status, .content_type = "text/plain; charset=utf-8", .body = std::string(text)};
}

}  // namespace billow::http
