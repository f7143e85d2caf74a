// Errors and answers in the form of Ollama's own API. Pure; any thread.
#pragma once

#include <string_view>

#include "api/call.h"
#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::api::ollama {

inline constexpr std::string_view kJsonType = "application/json; charset=utf-8";
inline constexpr std::string_view kNdjsonType = "application/x-ndjson";

// {"error":"..."} without a line end, as JSON.
std::string error_text(std::string_view text);

// The whole answer; in plain text where the path or the method is of no route. A ShapeError.
http::Response shape_error(int status, std::string_view text);

// `value` as the whole answer.
bool respond_json(Call& call, const Json& value, int status = 200);

}  // namespace billow::api::ollama
