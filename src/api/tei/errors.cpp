#include "api/tei/errors.h"

#include <algorithm>
#include <array>
#include <string>

#include "api/json_text.h"

namespace billow::api::tei {

bool is_route(std::string_view path) noexcept {
  constexpr std::array<std::string_view, 5> kPaths = {"/embed", "/rerank", "/tokenize", "/decode",
                                                      "/detokenize"};
  return std::ranges::find(kPaths, path) != kPaths.end();
}

http::Response error_response(int status, std::string_view text) {
  const char* type = status == 503 || status == 429 ? "Overloaded"
                     : status >= 500                ? "Backend"
                                                    : "Validation";
  std::string body = "{\"error\":";
  append_string(body, text);
  body += ",\"error_type\":\"" + std::string(type) + "\"}";
  return {.status = status, .content_type = "application/json", .body = std::move(body)};
}

}  // namespace billow::api::tei
