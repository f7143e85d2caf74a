// Parses tools and tool calls of a request. It checks every field's type against Ollama's structs,
// so that readers of a declaration need no checks. A schema within the parameters can also be true
// or false, and the type of the parameters can be a list. Pure functions; thread-safe.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api {

// Parses the field "tools". A declaration keeps the client's additional fields. Its "function" and
// "name" always exist. Throws http::StatusError (400) that names a field of a wrong type.
std::vector<Tool> tools_of(const Fields& request);

// Parses the field "functions", OpenAI's older form of "tools".
std::vector<Tool> functions_of(const Fields& request);

// Parses the field "tool_calls" of a message in Ollama's API. Throws the same errors.
std::vector<ToolCall> tool_calls_of(const Fields& message);

// Returns the declarations of tools as a JSON array, for templates; null if there are no tools.
// Schemas that are true or false become objects, because templates read their members.
Json declarations_of(const std::vector<Tool>& tools);

// Returns calls in the form of Ollama's API, which templates expect: an array of
// {"id"?,"function":{"index","name","arguments"}}. It is empty if there are no calls.
Json tool_calls_json(const std::vector<const ToolCall*>& calls);

}  // namespace billow::api
