// Tables that say how each API request treats its fields. A known field that is not honoured is
// refused by name. docs/api/fields.md shows the tables. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"

namespace billow::api {

enum class Treatment : uint8_t {
  kHonoured,
  kIgnored,  // does not change the answer; the note gives the reason
  kRefused,  // answered with 400, except for null and the values in `harmless`
};

struct FieldRule {
  std::string_view name;
  Treatment treatment = Treatment::kHonoured;
  std::string_view note{};      // the effect, why it changes nothing, or what to do instead
  std::string_view harmless{};  // accepted JSON values, separated by blanks
};

// Returns the names of fields without a rule. Throws http::StatusError (400) for a refused field:
// field "x" is not supported: note.
std::vector<std::string> check_fields(const Json& object, std::span<const FieldRule> rules);

// The table of one API request, for documents and tests.
struct FieldTable {
  std::string_view request;  // "POST /v1/chat/completions"
  std::span<const FieldRule> rules;
};

}  // namespace billow::api
