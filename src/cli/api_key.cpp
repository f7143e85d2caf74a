#include "cli/api_key.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "cli/variable.h"

namespace billow::cli {
namespace {

// Returns the key in a variable; empty if there is none.
std::string key_in(const std::string& name) {
  const std::optional<std::string> value = variable(name);
  const std::string_view key = value ? trimmed(*value) : std::string_view();
  if (!std::ranges::all_of(key, [](char c) { return c > ' ' && c < 0x7f; }))
    throw Error(ErrorCode::kInvalidInput, name +
                                              " is not an API key: it has blanks or letters "
                                              "beyond ASCII");
  return std::string(key);
}

http::Headers headers_with(const std::string& key) { return {{"Authorization", "Bearer " + key}}; }

}  // namespace

http::Headers key_headers() {
  for (const char* name : {"BILLOW_API_KEY", "OLLAMA_API_KEY"})
    if (const std::string key = key_in(name); !key.empty()) return headers_with(key);
  return {};
}

http::Headers key_headers_of(const std::string& variable_name) {
  const std::string key = key_in(variable_name);
  if (key.empty())
    throw Error(ErrorCode::kInvalidInput, "the variable " + variable_name +
                                              " is not set; the "
                                              "hosts file names it for the API key");
  return headers_with(key);
}

}  // namespace billow::cli
