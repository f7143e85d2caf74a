// Tools and tool calls as Go templates see them: records with the field names and the JSON that
// Ollama's types have. Unknown keys are dropped; absent ones are empty.
#pragma once

#include "base/json_fwd.h"
#include "prompt/go/value.h"

namespace billow::prompt {

// `tools`: an array of {"type", "function": {"name", "description", "parameters"}}, or null. Throws
// Error (kInvalidInput) where a part is of another type than it must be.
go::Value go_tools(const Json& tools);

// `calls`: an array of {"id", "function": {"index", "name", "arguments"}}, or null. Throws as
// above.
go::Value go_tool_calls(const Json& calls);

}  // namespace billow::prompt
