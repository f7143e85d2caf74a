// Errors in the form of text-embeddings-inference, {"error":"...","error_type":"Validation"}. Pure;
// any thread.
#pragma once

#include <string_view>

#include "http/message.h"

namespace billow::api::tei {

// Whether a path is one of its routes, or its own of llama-server's, whose errors have this form.
bool is_route(std::string_view path) noexcept;

// The whole answer (api::ShapeError). Its type: "Overloaded" for 503, "Backend" for other statuses
// from 500 on, else "Validation".
http::Response error_response(int status, std::string_view text);

}  // namespace billow::api::tei
