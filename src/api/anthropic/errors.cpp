#include "api/anthropic/errors.h"

#include <algorithm>

#include "api/anthropic/models.h"
#include "api/fields.h"
#include "base/json.h"

namespace billow::api::anthropic {
namespace {

struct StatusType {
  int status;
  const char* type;
};
constexpr StatusType kTypes[] = {
    {400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
    {404, "not_found_error"},       {413, "request_too_large"},    {429, "rate_limit_error"},
    {503, "overloaded_error"},      {529, "overloaded_error"},
};

const char* type_of(int status) {
  const auto* found = std::ranges::find(kTypes, status, &StatusType::status);
  return found == std::end(kTypes) ? "api_error" : found->type;
}

}  // namespace

bool is_route(std::string_view path) noexcept {
  return path == "/v1/messages" || path.starts_with("/v1/messages/");
}

bool is_route(const http::Request& request) noexcept {
  const std::string_view path = request.path;
  const bool is_models =
      path == "/v1/models" || path.starts_with("/v1/models/") || path == "/models";
  return is_route(path) || (is_models && is_client(request));
}

std::string error_json(int status, std::string_view text, std::string_view request_id) {
  Json object;
  object["type"] = "error";
  object["error"]["type"] = type_of(status);
  object["error"]["message"] = text;
  if (!request_id.empty()) object["request_id"] = request_id;
  return to_text(object);
}

http::Response error_response(int status, std::string_view text, std::string_view request_id) {
  http::Response response = {.status = status,
                             .content_type = "application/json",
                             .body = error_json(status, text, request_id) + "\n"};
  if (!request_id.empty()) response.headers.set("request-id", std::string(request_id));
  return response;
}

}  // namespace billow::api::anthropic
