// Whether an address belongs to the public internet.
#pragma once

#include <sys/socket.h>

namespace billow::http {

// Returns false for addresses of this machine, of private networks and of links, for multicast, for
// reserved ranges, and for ranges that embed or translate IPv4 addresses (IANA's registries of
// special-purpose addresses). Returns false for families other than IPv4 and IPv6. Thread-safe.
bool is_public_address(const sockaddr& address) noexcept;

}  // namespace billow::http
