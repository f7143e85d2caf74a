#include "http/authority.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <charconv>
#include <system_error>

#include "http/url.h"

namespace billow::http {
namespace {

bool is_ipv6_address(std::string_view text) {
  in6_addr bytes{};
  // inet_pton() would stop at a zero byte.
  return text.find('\0') == std::string_view::npos &&
         inet_pton(AF_INET6, std::string(text).c_str(), &bytes) == 1;
}

// Matches reg-name of RFC 3986, which includes IPv4 addresses.
bool is_registered_name(std::string_view text) {
  constexpr std::string_view kOthers = "!$&'()*+,;=%";
  return percent_decoded(text).has_value() && std::ranges::all_of(text, [&](char c) {
           return is_unreserved(c) || kOthers.find(c) != std::string_view::npos;
         });
}

// Parses an empty text, or a colon and the digits of a port.
bool parse_port(std::string_view text, std::optional<uint16_t>& port) {
  if (text.empty()) return true;
  if (text.front() != ':') return false;
  text.remove_prefix(1);
  if (text.empty()) return true;
  uint16_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, number);
  if (code != std::errc() || stop != end) return false;
  port = number;
  return true;
}

// Parses "[address]" or "[address%zone]", and a port. The zone is dropped, because only the sender
// can use it.
std::optional<Authority> parse_bracketed(std::string_view text) {
  const size_t end = text.find(']');
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view inside = text.substr(1, end - 1);
  const size_t percent = inside.find('%');
  const std::string_view address = inside.substr(0, percent);
  if (!is_ipv6_address(address)) return std::nullopt;
  if (percent != std::string_view::npos) {
    std::string_view zone = inside.substr(percent + 1);
    if (zone.starts_with("25")) zone.remove_prefix(2);  // "%25" is an encoded '%'
    if (zone.empty() || !std::ranges::all_of(zone, is_unreserved)) return std::nullopt;
  }
  Authority authority{.host = std::string(address), .is_ipv6 = true};
  if (!parse_port(text.substr(end + 1), authority.port)) return std::nullopt;
  return authority;
}

}  // namespace

std::optional<Authority> parse_authority(std::string_view text) {
  if (text.starts_with('[')) return parse_bracketed(text);
  if (is_ipv6_address(text)) return Authority{.host = std::string(text), .is_ipv6 = true};
  const size_t colon = std::min(text.find(':'), text.size());
  if (!is_registered_name(text.substr(0, colon))) return std::nullopt;
  Authority authority{.host = std::string(text.substr(0, colon))};
  if (!parse_port(text.substr(colon), authority.port)) return std::nullopt;
  return authority;
}

}  // namespace billow::http
