// "tool_choice" and "parallel_tool_calls" in OpenAI's form, with the older "function_call". Pure;
// any thread.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// "none", "auto", "required", {"type":"function","function":{"name"}} or, as the Responses API has
// it, {"type":"function","name"}. Throws http::StatusError (400) for what is none of these, and for
// a tool that is not declared.
ToolChoice tool_choice_of(const Fields& request, const std::vector<Tool>& tools);

}  // namespace billow::api
