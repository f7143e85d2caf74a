#include "runner/response.h"

#include "base/json.h"

namespace billow::runner {

http::Response json_response(int status, const Json& json) {
  return {.status = status,
          .content_type = "application/json",
          .headers = {},
          .body = json.dump(-1, ' ', false, Json::error_handler_t::replace)};
}

http::Response error_response(int status, std::string_view text) {
  return json_response(status, {{"error", text}});
}

}  // namespace billow::runner
