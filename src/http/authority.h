// The value of a `Host` field: a host and perhaps a port (RFC 3986, 3.2). Pure; any thread may
// call.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace billow::http {

struct Authority {
  std::string host{};  // as it was sent, without brackets and zone
  bool is_ipv6 = false;
  std::optional<uint16_t> port{};  // none also where nothing stands behind the colon
};

// Every byte of `text` must belong to the host or the port: "[::1]x" and "a%zb" are nullopt. An
// empty host is allowed, and so is an IPv6 address without brackets, which some clients send.
// User information ("a@b") and a port beyond 65535 are nullopt.
std::optional<Authority> parse_authority(std::string_view text);

}  // namespace billow::http
