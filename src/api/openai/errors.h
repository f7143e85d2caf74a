// Errors in OpenAI's form, {"error":{"message","type","param":null,"code":null}}. Pure functions;
// thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::api::openai {

// Returns the error as compact JSON. Its type is "invalid_request_error" for 400, "not_found_error"
// for 404, otherwise "api_error".
std::string error_json(int status, std::string_view text);

// Returns the whole answer (api::ShapeError).
http::Response error_response(int status, std::string_view text);

// Throws http::StatusError (400) with this text.
[[noreturn]] void refuse(const std::string& text);

// Returns Go's name for the type of a decoded value, for error messages: "float64",
// "map[string]interface {}"; "<nil>" for null and for an absent value.
std::string_view go_type(const Json* value) noexcept;

}  // namespace billow::api::openai
