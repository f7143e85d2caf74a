#include "api/openai/errors.h"

#include "api/error_texts.h"
#include "api/fields.h"
#include "base/json.h"
#include "http/status.h"

namespace billow::api::openai {

std::string error_json(int status, std::string_view text) {
  const char* type = "api_error";
  if (status == 400) type = "invalid_request_error";
  if (status == 404) type = "not_found_error";
  Json error;
  error["message"] = text;
  error["type"] = type;
  error["param"] = nullptr;
  if (text.starts_with(kPromptTooLong))
    error["code"] = "context_length_exceeded";
  else
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

void refuse(const std::string& text) { api::refuse(text); }

std::string_view go_type(const Json* value) noexcept {
  if (value == nullptr || value->is_null()) return "<nil>";
  if (value->is_boolean()) return "bool";
  if (value->is_number()) return "float64";
  if (value->is_string()) return "string";
  return value->is_array() ? "[]interface {}" : "map[string]interface {}";
}

}  // namespace billow::api::openai
