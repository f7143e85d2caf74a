// Errors and answers in the form of Ollama's own API. Pure functions; thread-safe.
#pragma once

#include <string_view>

#include "api/call.h"
#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::api::ollama {

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kNdjsonType = "application/x-ndjson";

// Returns {"error":"..."} as JSON, without a line end.
std::string error_text(std::string_view text);

// Returns the whole answer; in plain text if no route has the path or the method. A ShapeError.
http::Response shape_error(int status, std::string_view text);

// Answers with `value`.
bool respond_json(Call& call, const Json& value, int status = 200);

}  // namespace billow::api::ollama
