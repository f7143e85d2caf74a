#include "api/ollama/errors.h"

#include <string>

#include "api/json_text.h"
#include "base/json.h"

namespace billow::api::ollama {

std::string error_text(std::string_view text) {
  std::string body = "{\"error\":";
  append_string(body, text);
  return body + "}";
}

http::Response shape_error(int status, std::string_view text) {
  const bool is_unrouted = (status == 404 && text == "404 page not found") ||
                           (status == 405 && text == "405 method not allowed");
  if (is_unrouted)
    return {.status = status, .content_type = "text/plain", .body = std::string(text)};
  return {.status = status, .content_type = std::string(kJsonType), .body = error_text(text)};
}

bool respond_json(Call& call, const Json& value, int status) {
  http::Response response{.status = status, .content_type = std::string(kJsonType)};
  append_json(response.body, value);
  return call.respond(std::move(response));
}

}  // namespace billow::api::ollama
