// Turns tools and tool calls into values for Go templates: records with the field names and the
// JSON of Ollama's types. Unknown keys are dropped; absent keys are empty.
#pragma once

#include "base/json_fwd.h"
#include "prompt/go/value.h"

namespace billow::prompt {

// `tools`: an array of {"type", "function": {"name", "description", "parameters"}}, or null. A
// property that is true or false becomes an empty one. Throws Error (kInvalidInput) if a part has
// the wrong type.
go::Value go_tools(const Json& tools);

// `calls`: an array of {"id", "function": {"index", "name", "arguments"}}, or null. Throws Error
// like go_tools.
go::Value go_tool_calls(const Json& calls);

}  // namespace billow::prompt
