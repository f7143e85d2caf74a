#include "api/llama/errors.h"

#include <algorithm>
#include <array>

#include "api/error_texts.h"
#include "api/fields.h"
#include "base/json.h"

namespace billow::api::llama {
namespace {

struct StatusType {
  int status;
  const char* type;
};
constexpr std::array kTypes{
    StatusType{400, "invalid_request_error"}, StatusType{401, "authentication_error"},
    StatusType{403, "permission_error"},      StatusType{404, "not_found_error"},
    StatusType{413, "invalid_request_error"}, StatusType{501, "not_supported_error"},
    StatusType{503, "unavailable_error"},     StatusType{429, "rate_limit_error"},
};

constexpr std::array<std::string_view, 8> kPaths = {"/completion",     "/completions",   "/infill",
                                                    "/props",          "/slots",         "/version",
                                                    "/apply-template", "/tokenizer_info"};

}  // namespace

bool is_route(std::string_view path) noexcept {
  return std::ranges::find(kPaths, path) != kPaths.end() || path.starts_with("/slots/");
}

std::string error_json(int status, std::string_view text) {
  const auto* type = std::ranges::find(kTypes, status, &StatusType::status);
  Json object;
  object["error"]["code"] = status;
  object["error"]["message"] = text;
  object["error"]["type"] = type == kTypes.end() ? "server_error" : type->type;
  if (text.starts_with(kPromptTooLong)) object["error"]["type"] = "exceed_context_size_error";
  return to_text(object);
}

http::Response error_response(int status, std::string_view text) {
  return {.status = status,
          .content_type = "application/json",
          .body = error_json(status, text) + "\n"};
}

}  // namespace billow::api::llama
