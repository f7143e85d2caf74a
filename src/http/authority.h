// Parses the value of a `Host` field: a host and an optional port (RFC 3986, 3.2). Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::http {

struct Authority {
  std::string host{};  // as sent, without brackets and zone
  bool is_ipv6 = false;
  std::optional<uint16_t> port{};  // nullopt also if nothing follows the colon
};

// Parses `text` as a whole: every byte must belong to the host or the port. "[::1]x" and "a%zb"
// return nullopt. An empty host is allowed. An IPv6 address without brackets is allowed, because
// some clients send it. User information ("a@b") and a port above 65535 return nullopt.
std::optional<Authority> parse_authority(std::string_view text);

}  // namespace billow::http
