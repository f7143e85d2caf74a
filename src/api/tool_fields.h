// Tools and calls of tools in a request, with every field of the type that Ollama's structs give
// it: who reads the JSON behind this needs no check of its own. Pure; any thread.
#pragma once

#include <string>

#include "api/fields.h"

namespace billow::api {

// The field "tools" as a JSON array of {"type","function":{"name",...},...}, or "" where there are
// none. What clients add beyond the struct stays, and "function" and its "name" are always there.
// Throws http::StatusError (400) that names the field of a wrong type.
std::string tools_json(const Fields& request);

// The field "tool_calls" of a message in Ollama's API, as an array of
// {"id"?,"function":{"index","name","arguments"}}, or "" where there are none. Throws as above.
std::string tool_calls_json(const Fields& message);

}  // namespace billow::api
