#include "api/field_rules.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

constexpr FieldRule kRules[] = {
    {"model"},
    {"user", Treatment::kIgnored, "for the provider's statistics"},
    {"best_of", Treatment::kRefused, "ask for n answers", "1"},
    {"audio", Treatment::kRefused, "answers are text"},
    {"modalities", Treatment::kRefused, "answers are text", R"(["text"] [])"},
};

std::string refusal(const char* body) {
  try {
    check_fields(Json::parse(body), kRules);
    return "none";
  } catch (const http::StatusError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
}

TEST(FieldRules, UnknownFieldsAreReturned) {
  EXPECT_EQ(check_fields(Json::parse(R"({"model":"m","colour":1,"user":"u","Zoo":2})"), kRules),
            (std::vector<std::string>{"colour", "Zoo"}));
}

TEST(FieldRules, RefusesUnsupportedFieldsByName) {
  EXPECT_EQ(refusal(R"({"audio":{}})"), R"(400 field "audio" is not supported: answers are text)");
  EXPECT_EQ(refusal(R"({"AUDIO":{}})"), R"(400 field "AUDIO" is not supported: answers are text)");
  EXPECT_EQ(refusal(R"({"best_of":2})"),
            R"(400 field "best_of" is not supported: ask for n answers)");
}

TEST(FieldRules, AcceptsHarmlessValues) {
  for (const char* body : {R"({"best_of":1})", R"({"audio":null})", R"({"modalities":["text"]})",
                           R"({"modalities":[]})"})
    EXPECT_EQ(refusal(body), "none") << body;
  EXPECT_NE(refusal(R"({"modalities":["text","audio"]})"), "none");
}

}  // namespace
}  // namespace billow::api
