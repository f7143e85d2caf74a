#include "metrics/request_id.h"

#include <sys/random.h>

#include <algorithm>
#include <array>

#include "base/check.h"

namespace billow::metrics {
namespace {

constexpr size_t kMaxIdBytes = 128;
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_hex(std::string_view text) {
  return text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

bool is_zero(std::string_view text) {
  return text.find_first_not_of('0') == std::string_view::npos;
}

}  // namespace

bool is_request_id(std::string_view text) noexcept {
  return !text.empty() && text.size() <= kMaxIdBytes && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string new_request_id() {
  std::array<unsigned char, 16> bytes{};
  // The system never splits a request for so few bytes.
  BILLOW_CHECK(::getrandom(bytes.data(), bytes.size(), 0) == ssize_t{bytes.size()});
  std::string id;
  for (const unsigned char byte : bytes) {
    id += kHexDigits[byte >> 4];
    id += kHexDigits[byte & 15];
  }
  return id;
}

std::optional<TraceParent> parse_traceparent(std::string_view text) {
  if (text.size() < kTraceParentBytes) return std::nullopt;
  const std::string_view version = text.substr(0, 2);
  const std::string_view trace_id = text.substr(3, 32);
  const std::string_view parent_id = text.substr(36, 16);
  const std::string_view flags = text.substr(53, 2);
  for (const size_t at : {2u, 35u, 52u}) {
    if (text[at] != '-') return std::nullopt;
  }
  for (const std::string_view field : {version, trace_id, parent_id, flags}) {
    if (!is_hex(field)) return std::nullopt;
  }
  if (version == "ff" || is_zero(trace_id) || is_zero(parent_id)) return std::nullopt;
  const bool has_more = text.size() > kTraceParentBytes;
  if (has_more && (version == "00" || text[kTraceParentBytes] != '-')) return std::nullopt;
  return TraceParent{std::string(trace_id), std::string(parent_id),
                     (kHexDigits.find(flags[1]) & 1) != 0};
}

}  // namespace billow::metrics
