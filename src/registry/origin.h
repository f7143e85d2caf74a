// Who a URL speaks to. Pure functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow::registry {

struct Origin {
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case; an IPv6 address in its brackets
  std::string port;    // always there: "443", "80" where the URL has none

  bool operator==(const Origin&) const = default;
};

// Nullopt for what is no http or https URL, and for one with a user's name before the host: what
// stands there looks like a host to people.
std::optional<Origin> origin_of(std::string_view url);

// The URL that `reference`, of a field Location, means in an answer from `base` (RFC 3986, 5).
// Nullopt where it is no http or https URL.
std::optional<std::string> resolved_url(const std::string& base, const std::string& reference);

}  // namespace billow::registry
