#include "http/public_address.h"

#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace billow::http {
namespace {

struct Range4 {
  uint32_t network;
  int n_bits;
};

constexpr uint32_t ipv4(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a << 24 | b << 16 | c << 8 | d;
}

constexpr std::array kSpecial4{
    Range4{ipv4(0, 0, 0, 0), 8},        // this network
    Range4{ipv4(10, 0, 0, 0), 8},       // private
    Range4{ipv4(100, 64, 0, 0), 10},    // shared by customers of a provider
    Range4{ipv4(127, 0, 0, 0), 8},      // loopback
    Range4{ipv4(169, 254, 0, 0), 16},   // link-local; clouds serve credentials here
    Range4{ipv4(172, 16, 0, 0), 12},    // private
    Range4{ipv4(192, 0, 0, 0), 24},     // protocol assignments
    Range4{ipv4(192, 0, 2, 0), 24},     // documentation
    Range4{ipv4(192, 88, 99, 0), 24},   // 6to4 relays
    Range4{ipv4(192, 168, 0, 0), 16},   // private
    Range4{ipv4(198, 18, 0, 0), 15},    // benchmarks
    Range4{ipv4(198, 51, 100, 0), 24},  // documentation
    Range4{ipv4(203, 0, 113, 0), 24},   // documentation
    Range4{ipv4(224, 0, 0, 0), 3},      // multicast, reserved, broadcast
};

bool is_public(uint32_t address) noexcept {
  return std::ranges::none_of(kSpecial4, [address](const Range4& range) {
    return (address ^ range.network) >> (32 - range.n_bits) == 0;
  });
}

// Public addresses are in 2000::/3, without 2001::/23 (protocol assignments, Teredo), 2001:db8::/32
// (documentation), 2002::/16 (6to4) and 3fff::/20 (documentation).
bool is_public(const std::array<uint8_t, 16>& bytes) noexcept {
  const uint32_t first = ipv4(bytes[0], bytes[1], bytes[2], bytes[3]);
  if (first >> 29 != 1) return false;
  return first >> 9 != 0x20010000u >> 9 && first != 0x20010db8u && first >> 16 != 0x2002u &&
         first >> 12 != 0x3fff0000u >> 12;
}

}  // namespace

bool is_public_address(const sockaddr& address) noexcept {
  if (address.sa_family == AF_INET) {
    sockaddr_in own{};
    std::memcpy(&own, &address, sizeof own);
    return is_public(ntohl(own.sin_addr.s_addr));
  }
  if (address.sa_family != AF_INET6) return false;
  sockaddr_in6 own{};
  std::memcpy(&own, &address, sizeof own);
  std::array<uint8_t, 16> bytes{};
  std::memcpy(bytes.data(), &own.sin6_addr, bytes.size());
  return is_public(bytes);
}

}  // namespace billow::http
