// JSON responses of a runner. Any thread.
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::runner {

http::Response json_response(int status, const Json& json);
// Returns a response with the body {"error":"..."}.
http::Response error_response(int status, std::string_view text);

}  // namespace billow::runner
