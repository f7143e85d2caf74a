#include "http/url.h"

#include <cstddef>
#include <utility>

#include "base/text.h"

namespace billow::http {
namespace {

// Returns the value of a hexadecimal digit; -1 for any other character.
int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Returns `text` from the path on. Removes the scheme and host of the absolute form.
std::optional<std::string_view> origin_form(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equal_ignoring_case(text.substr(0, scheme.size()), scheme)) continue;
    const size_t end = text.find_first_of("/?", scheme.size());
    if (end == std::string_view::npos) return "/";
    if (text[end] == '?') return std::nullopt;
    return text.substr(end);
  }
  return text;
}

bool parse_query(std::string_view rest, Parameters& query) {
  while (!rest.empty()) {
    const size_t end = rest.find('&');
    const std::string_view pair = rest.substr(0, end);
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    if (pair.empty()) continue;
    const size_t equals = pair.find('=');
    auto name = percent_decoded(pair.substr(0, equals), true);
    auto value = percent_decoded(
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1), true);
    if (!name || !value) return false;
    query.try_emplace(*std::move(name), *std::move(value));
  }
  return true;
}

}  // namespace

bool is_unreserved(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_blank) {
  std::string decoded;
  decoded.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (text.size() - i < 3) return std::nullopt;
      const int high = hex_value(text[i + 1]);
      const int low = hex_value(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      decoded += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      decoded += plus_is_blank && text[i] == '+' ? ' ' : text[i];
    }
  }
  return decoded;
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    if (is_unreserved(c)) {
      encoded += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::optional<Target> parse_target(std::string_view text) {
  const std::optional<std::string_view> origin = origin_form(text);
  if (!origin || !origin->starts_with('/')) return std::nullopt;
  Target target;
  const size_t mark = origin->find('?');
  target.raw_path = origin->substr(0, mark);
  if (mark != std::string_view::npos) target.raw_query = origin->substr(mark + 1);
  auto path = percent_decoded(target.raw_path);
  if (!path || !parse_query(target.raw_query, target.query)) return std::nullopt;
  target.path = *std::move(path);
  return target;
}

}  // namespace billow::http
