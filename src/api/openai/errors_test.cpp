#include "api/openai/errors.h"

#include <gtest/gtest.h>

#include "api/error_texts.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

TEST(Errors, TypeDependsOnStatus) {
  const std::pair<int, const char*> kTypes[] = {{400, "invalid_request_error"},
                                                {404, "not_found_error"},
                                                {401, "api_error"},
                                                {403, "api_error"},
                                                {429, "api_error"},
                                                {499, "api_error"},
                                                {500, "api_error"},
                                                {503, "api_error"}};
  for (const auto& [status, type] : kTypes) {
    const http::Response response = error_response(status, "no \"x\" <y>");
    EXPECT_EQ(response.status, status);
    EXPECT_EQ(response.content_type, "application/json");
    EXPECT_EQ(response.body, R"({"error":{"message":"no \"x\" \u003cy\u003e","type":")" +
                                 std::string(type) + R"(","param":null,"code":null}})" + "\n");
  }
}

TEST(Errors, PromptsBeyondTheContextHaveACode) {
  const Json json = Json::parse(error_json(400, std::string(kPromptTooLong) + " of 512"));
  EXPECT_EQ(json["error"]["code"], "context_length_exceeded");
  EXPECT_EQ(json["error"]["type"], "invalid_request_error");
}

TEST(Errors, AnyBytesBecomeValidJson) {
  const std::string text = error_json(500, "a\nb\xff\x01");
  EXPECT_FALSE(Json::parse(text, nullptr, false).is_discarded()) << text;
}

TEST(Errors, TypesHaveGosNames) {
  const std::pair<const char*, const char*> kTypes[] = {{"null", "<nil>"},
                                                        {"true", "bool"},
                                                        {"1", "float64"},
                                                        {"1.5", "float64"},
                                                        {"\"\"", "string"},
                                                        {"[]", "[]interface {}"},
                                                        {"{}", "map[string]interface {}"}};
  for (const auto& [text, type] : kTypes) {
    const Json value = Json::parse(text);
    EXPECT_EQ(go_type(&value), type);
  }
  EXPECT_EQ(go_type(nullptr), "<nil>");
}

}  // namespace
}  // namespace billow::api::openai
