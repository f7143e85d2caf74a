// Errors in OpenAI's form, {"error":{"message","type","param":null,"code":null}}. Pure functions;
// any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::api::openai {

// The object, compact. Its type: "invalid_request_error" for 400, "not_found_error" for 404, else
// "api_error".
std::string error_json(int status, std::string_view text);

// The whole answer (api::ShapeError).
http::Response error_response(int status, std::string_view text);

// 400 with this text.
[[noreturn]] void refuse(const std::string& text);

// "float64", "map[string]interface {}", "<nil>" for null: what Go calls a value that it has decoded
// without knowing what to expect; part of some texts. Null is what is absent, too.
std::string_view go_type(const Json* value) noexcept;

}  // namespace billow::api::openai
