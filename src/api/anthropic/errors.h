// Errors in Anthropic's form, {"type":"error","error":{"type","message"},"request_id"}. Pure
// functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::api::anthropic {

// Returns true if errors of this path have Anthropic's form.
bool is_route(std::string_view path) noexcept;

// Returns true if errors of this request have Anthropic's form: on these paths, and on /v1/models
// for clients of Anthropic's API.
bool is_route(const http::Request& request) noexcept;

// Returns the error as compact JSON; without "request_id" if it is empty.
std::string error_json(int status, std::string_view text, std::string_view request_id = {});

// Returns the whole answer; with the header "request-id" if the id is not empty.
http::Response error_response(int status, std::string_view text, std::string_view request_id = {});

}  // namespace billow::api::anthropic
