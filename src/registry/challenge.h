// What a registry asks of a client that it does not know yet: the field WWW-Authenticate of an
// answer with 401 (RFC 9110, 11.3). Pure functions; any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace billow::registry {

struct Challenge {
  std::string scheme;                             // in lower case: "bearer", "basic"
  std::map<std::string, std::string> parameters;  // names in lower case, values as they are meant

  // Empty where there is none.
  const std::string& parameter(const std::string& name) const;
};

// The challenges of a field's value, in their order. What cannot be read ends the list: a registry
// is not trusted to keep to the grammar.
std::vector<Challenge> parse_challenges(std::string_view value);

}  // namespace billow::registry
