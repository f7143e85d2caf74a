#include "api/field_rules.h"

#include <algorithm>

#include "base/json.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api {
namespace {

bool is_harmless(const Json& value, std::string_view harmless) {
  const std::string text = value.dump();
  for (size_t at = 0; at < harmless.size();) {
    const size_t end = std::min(harmless.find(' ', at), harmless.size());
    if (text == harmless.substr(at, end - at)) return true;
    at = end + 1;
  }
  return false;
}

}  // namespace

std::vector<std::string> check_fields(const Json& object, std::span<const FieldRule> rules) {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : object.items()) {
    // Names match in any case, as everywhere in requests.
    const auto rule = std::ranges::find(rules, lower_case(name), &FieldRule::name);
    if (rule == rules.end()) {
      unknown.push_back(name);
    } else if (rule->treatment == Treatment::kRefused && !value.is_null() &&
               !is_harmless(value, rule->harmless)) {
      throw http::StatusError(
          400, "field \"" + name + "\" is not supported: " + std::string(rule->note));
    }
  }
  return unknown;
}

}  // namespace billow::api
