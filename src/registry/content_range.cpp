#include "registry/content_range.h"

#include <charconv>
#include <system_error>

namespace billow::registry {

std::optional<uint64_t> number_in(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

ContentRange parse_content_range(std::string_view value) {
  ContentRange range;
  constexpr std::string_view kUnit = "bytes ";
  if (!value.starts_with(kUnit)) return range;
  value.remove_prefix(kUnit.size());
  range.first = number_in(value.substr(0, value.find('-')));
  const size_t slash = value.find('/');
  if (slash != std::string_view::npos) range.total = number_in(value.substr(slash + 1));
  return range;
}

std::optional<uint64_t> whole_bytes(const Reply& head) {
  if (head.status == 206) return parse_content_range(head.headers.get("Content-Range")).total;
  return number_in(head.headers.get("Content-Length"));
}

}  // namespace billow::registry
