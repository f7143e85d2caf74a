// The gate of a server with API keys: which role each route needs, and whether a request has it.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "http/access.h"
#include "http/message.h"
#include "keys/key_ring.h"
#include "metrics/metrics.h"

namespace billow::server {

// The field `WWW-Authenticate` of responses with status 401.
inline constexpr std::string_view kChallenge = "Bearer realm=\"billow\"";

struct RouteAccess {
  std::string_view pattern;          // of the route
  std::optional<keys::Role> role{};  // nullopt: no key is needed
  bool is_limited = false;           // the limits of the key count
};

// Returns the access rules of all routes, one row for each pattern.
std::span<const RouteAccess> route_accesses();
// Returns the row of a route. A route without a row needs the role `manage`, so that a forgotten
// row opens nothing.
RouteAccess access_of(std::string_view pattern);

// Returns the key of a request: the token of "Authorization: Bearer", otherwise "x-api-key". Empty
// if it has none.
std::string_view key_of(const http::Headers& headers);

// Checks the key of a request for the route with this pattern, and counts refusals. The empty
// pattern is a path without a route, which needs no key. Sets Verdict::user to the name of the key.
// Thread-safe.
http::Verdict check_key(keys::KeyRing& ring, const http::Request& request,
                        std::string_view pattern);

// Sets the metrics of the keys.
void report_keys(const keys::KeyRing& ring, metrics::Load& load);

}  // namespace billow::server
