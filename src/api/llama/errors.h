// Errors in the form of llama-server, {"error":{"code","message","type"}}. Pure functions; any
// thread.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::api::llama {

// Whether the errors of a path have this form.
bool is_route(std::string_view path) noexcept;

// The object, compact.
std::string error_json(int status, std::string_view text);

// The whole answer (api::ShapeError).
http::Response error_response(int status, std::string_view text);

}  // namespace billow::api::llama
