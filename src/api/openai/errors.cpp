#include "api/openai/errors.h"

#include <algorithm>

#include "api/fields.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::openai {
namespace {

struct StatusType {
  int status;
  const char* type;
};
constexpr StatusType kTypes[] = {
    {400, "invalid_request_error"}, {401, "authentication_error"}, {403, "permission_error"},
    {404, "not_found_error"},       {429, "rate_limit_error"},
};

}  // namespace

std::string error_json(int status, std::string_view text) {
  const auto* known = std::ranges::find(kTypes, status, &StatusType::status);
  const char* type = known == std::end(kTypes) ? "api_error" : known->type;
  Json error;
  error["message"] = text;
  error["type"] = type;
  error["param"] = nullptr;
  error["code"] = nullptr;
  Json object;
  object["error"] = std::move(error);
  return to_text(object);
}

http::Response error_response(int status, std::string_view text) {
  return {.status = status,
          .content_type = "application/json",
          .body = error_json(status, text) + "\n"};
}

void refuse(const std::string& text) { throw http::StatusError(400, text); }

std::string_view go_type(const Json* value) noexcept {
  if (value == nullptr || value->is_null()) return "<nil>";
  if (value->is_boolean()) return "bool";
  if (value->is_number()) return "float64";
  if (value->is_string()) return "string";
  return value->is_array() ? "[]interface {}" : "map[string]interface {}";
}

}  // namespace billow::api::openai
