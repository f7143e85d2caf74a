// Parses the field WWW-Authenticate of a response with status 401 (RFC 9110, 11.3). A registry
// sends it to demand authentication. Pure functions; thread-safe.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace billow::registry {

struct Challenge {
  std::string scheme;                             // in lower case: "bearer", "basic"
  std::map<std::string, std::string> parameters;  // names in lower case, values unquoted

  // Returns the parameter's value; empty if it is missing.
  const std::string& parameter(const std::string& name) const;
};

// Returns the challenges of a field's value, in order. Parsing stops at malformed text, because a
// registry may break the grammar.
std::vector<Challenge> parse_challenges(std::string_view value);

}  // namespace billow::registry
