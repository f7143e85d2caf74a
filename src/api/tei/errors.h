// Errors in the form of text-embeddings-inference, {"error":"...","error_type":"Validation"}. Pure
// functions; thread-safe.
#pragma once

#include <string_view>

#include "http/message.h"

namespace billow::api::tei {

// Returns true if errors of this path have this form: routes of text-embeddings-inference, and
// /detokenize of llama-server.
bool is_route(std::string_view path) noexcept;

// Returns the whole answer (api::ShapeError). Its type is "Overloaded" for 429 and 503, "Backend"
// for other statuses from 500, otherwise "Validation".
http::Response error_response(int status, std::string_view text);

}  // namespace billow::api::tei
