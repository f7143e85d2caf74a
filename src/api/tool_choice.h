// Parses "tool_choice" and "parallel_tool_calls" in OpenAI's form, and the older "function_call".
// Pure functions; thread-safe.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// Accepts "none", "auto", "required", {"type":"function","function":{"name"}} and the Responses
// API's {"type":"function","name"}. Throws http::StatusError (400) for any other value, and for a
// tool that is not declared.
ToolChoice tool_choice_of(const Fields& request, const std::vector<Tool>& tools);

}  // namespace billow::api
