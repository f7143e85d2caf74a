// The options that a model may set, by PARAMETER in a Modelfile or as "parameters" of a request:
// their names and types, and how their values are read and printed. Pure functions; any thread.
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
  bool deprecated;             // still known, but no longer of any effect
  std::string_view choices{};  // of a string: what it may be, between blanks; empty: anything
};

std::span<const Parameter> parameters() noexcept;
// Null for an unknown name.
const Parameter* find_parameter(std::string_view name) noexcept;

// The parameters of a Modelfile, name and value each, as an object of typed values; lists gather
// their values, of others the last one counts. Deprecated ones are left out: `warn` is given a line
// about each. Throws Error (kInvalidInput): unknown parameter 'x', invalid int value [v] ...
Json parameters_from_text(std::span<const std::pair<std::string, std::string>> values,
                          const std::function<void(const std::string&)>& warn = {});

// Checks the types of an object of options; unknown ones and nulls are let through. Throws Error
// (kInvalidInput): option "num_ctx" must be of type integer ...
void check_options(const Json& options);

// The lines of one option as a Modelfile or `show` prints them: a list has one for each element.
// Strings are as they are; numbers without a needless fraction.
std::vector<std::string> value_texts(const Json& value);

}  // namespace billow::store
