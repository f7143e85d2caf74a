// The options that a model may set, by PARAMETER in a Modelfile or "parameters" in a request.
// Defines their names and types, and parses and prints their values. Pure functions; thread-safe.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"

namespace billow::store {

enum class ParameterType { kInt, kFloat, kBool, kString, kStrings };

struct Parameter {
  std::string_view name;
  ParameterType type;
  bool deprecated;             // accepted, but without effect
  std::string_view choices{};  // for strings: allowed values, each between spaces; empty: any value
};

std::span<const Parameter> parameters() noexcept;
// Returns null for an unknown name.
const Parameter* find_parameter(std::string_view name) noexcept;

// Converts the names and values of a Modelfile to an object of typed values. A list collects all
// its values. For other types the last value counts. Deprecated parameters are left out; `warn`
// receives a line about each. Throws Error (kInvalidInput): unknown parameter 'x', invalid int
// value [v] ...
Json parameters_from_text(std::span<const std::pair<std::string, std::string>> values,
                          const std::function<void(const std::string&)>& warn = {});

// Checks the types of an object of options. Accepts unknown options and nulls. Throws Error
// (kInvalidInput): option "num_ctx" must be of type integer ...
void check_options(const Json& options);

// Returns the lines of one option as a Modelfile or `show` prints them. A list has one line for
// each element. Strings are unchanged; numbers have no needless fraction.
std::vector<std::string> value_texts(const Json& value);

}  // namespace billow::store
