// The answers of a runner that are JSON. Any thread.
#pragma once

#include <string_view>

#include "base/json_fwd.h"
#include "http/message.h"

namespace billow::runner {

http::Response json_response(int status, const Json& json);
// {"error":"..."}
http::Response error_response(int status, std::string_view text);

}  // namespace billow::runner
