// Tools and calls of tools in a request, with every field of the type that Ollama's structs give
// it. Who reads the JSON of a declaration needs no check of its own. Pure; any thread.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// The field "tools". What clients add beyond the struct stays in the declaration, whose "function"
// and "name" are always there. Throws http::StatusError (400) that names the field of a wrong type.
std::vector<Tool> tools_of(const Fields& request);

// The field "functions", which OpenAI had before "tools".
std::vector<Tool> functions_of(const Fields& request);

// The field "tool_calls" of a message in Ollama's API. Throws as above.
std::vector<ToolCall> tool_calls_of(const Fields& message);

// The declarations of tools as a JSON array; null where there are none.
Json declarations_of(const std::vector<Tool>& tools);

// Calls in the form of Ollama's API, which templates know: an array of
// {"id"?,"function":{"index","name","arguments"}}, empty where there are none.
Json tool_calls_json(const std::vector<const ToolCall*>& calls);

}  // namespace billow::api
