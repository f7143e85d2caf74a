// Errors in Anthropic's form, {"type":"error","error":{"type","message"},"request_id"}. Pure
// functions; any thread.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::api::anthropic {

// Whether the errors of a path have this form.
bool is_route(std::string_view path) noexcept;

// The object, compact; without "request_id" where that is empty.
std::string error_json(int status, std::string_view text, std::string_view request_id = {});

// The whole answer.
http::Response error_response(int status, std::string_view text, std::string_view request_id = {});

}  // namespace billow::api::anthropic
