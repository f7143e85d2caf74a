// Errors in llama-server's form, {"error":{"code","message","type"}}. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "http/message.h"

namespace billow::api::llama {

// Returns true if errors of this path have this form.
bool is_route(std::string_view path) noexcept;

// Returns the error as compact JSON.
std::string error_json(int status, std::string_view text);

// Returns the whole answer (api::ShapeError).
http::Response error_response(int status, std::string_view text);

}  // namespace billow::api::llama
