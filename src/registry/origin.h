// Finds the server that a URL addresses. Pure functions; thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace billow::registry {

struct Origin {
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case; an IPv6 address in brackets
  std::string port;    // always set: "443" or "80" if the URL has no port

  bool operator==(const Origin&) const = default;
};

// Returns the origin of `url`, or nullopt if `url` is not an http or https URL. A URL with a user
// name before the host also returns nullopt: people can mistake that name for the host.
std::optional<Origin> origin_of(std::string_view url);

// Resolves `reference`, the value of a field Location in a response from `base` (RFC 3986, 5).
// Returns nullopt if the result is not an http or https URL.
std::optional<std::string> resolved_url(const std::string& base, const std::string& reference);

}  // namespace billow::registry
