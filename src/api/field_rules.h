// What becomes of each field of a request: a table for each API's request, by which fields that are
// known and not honoured are refused by name, and which docs/api.md shows. Pure; any thread.
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
  kIgnored,  // it changes nothing of the answer, for the reason that the note gives
  kRefused,  // 400, but for null and `harmless`
};

struct FieldRule {
  std::string_view name;
  Treatment treatment = Treatment::kHonoured;
  std::string_view note{};      // what it does, why it changes nothing, or what to do instead
  std::string_view harmless{};  // JSON values, one after the other with blanks between: accepted
};

// Names of fields that no rule knows. Throws http::StatusError (400): field "x" is not supported:
// note.
std::vector<std::string> check_fields(const Json& object, std::span<const FieldRule> rules);

// A table of one API's request, for documents and tests.
struct FieldTable {
  std::string_view request;  // "POST /v1/chat/completions"
  std::span<const FieldRule> rules;
};

}  // namespace billow::api
