#include "output/values.h"

#include <gtest/gtest.h>

#include "base/json.h"
#include "output/json_copy.h"

namespace billow::output {
namespace {

unsigned types_of(const char* schema, const char* root = "{}") {
  return types_in(Json::parse(schema), Json::parse(root));
}

TEST(OutputValues, HaveTheTypesOfTheirSchema) {
  EXPECT_EQ(types_of(R"({"type": "string"})"), unsigned{kString});
  EXPECT_EQ(types_of(R"({"type": ["integer", "null"]})"), kInteger | kNull);
  EXPECT_EQ(types_of(R"({"anyOf": [{"type": "array"}, {"type": "object"}]})"), kArray | kObject);
  EXPECT_EQ(types_of(R"({"enum": ["a", 1]})"), kString | kInteger);
  EXPECT_EQ(types_of(R"({"type": "boolean", "nullable": true})"), kBoolean | kNull);
  EXPECT_EQ(types_of(R"({"$ref": "#/$defs/n"})", R"({"$defs": {"n": {"type": "number"}}})"),
            unsigned{kNumber});
  EXPECT_EQ(types_of(R"({"$ref": "#/a"})", R"({"a": {"$ref": "#/a"}})"), 0U);
  EXPECT_EQ(types_of(R"({"$ref": "#/nosuch"})"), 0U);
  EXPECT_EQ(types_of("true"), 0U);
}

TEST(OutputValues, BecomeJsonOfTheirTypes) {
  EXPECT_EQ(value_json("12", kString), "\"12\"");
  EXPECT_EQ(value_json("12", kInteger), "12");
  EXPECT_EQ(value_json("1.5", kInteger), "\"1.5\"");
  EXPECT_EQ(value_json("1.5", kInteger | kNumber), "1.5");
  EXPECT_EQ(value_json("108.", kNumber), "\"108.\"");
  EXPECT_EQ(value_json("1", kBoolean), "true");
  EXPECT_EQ(value_json("1", kBoolean | kInteger), "1");
  EXPECT_EQ(value_json("FALSE", kBoolean), "false");
  EXPECT_EQ(value_json("maybe", kBoolean), "\"maybe\"");
  EXPECT_EQ(value_json("null", kString), "\"null\"");
  EXPECT_EQ(value_json("Null", kInteger), "null");
  EXPECT_EQ(value_json("null", kString | kNull), "null");
  EXPECT_EQ(value_json("['a', True]", kArray), "[\"a\", true]");
  EXPECT_EQ(value_json("{\"a\": 1} x", kObject), "\"{\\\"a\\\": 1} x\"");
  EXPECT_EQ(value_json("[1]", 0), "[1]");
  EXPECT_EQ(value_json("12", 0), "\"12\"");
  EXPECT_EQ(value_json("a\n\x01\"", kString), "\"a\\n\\u0001\\\"\"");
}

TEST(OutputValues, RepairSmallErrorsInJson) {
  EXPECT_EQ(repaired_json("{\"a\": 1,}"), "{\"a\": 1}");
  EXPECT_EQ(repaired_json("{'a': 'it\\'s'}"), "{\"a\": \"it's\"}");
  EXPECT_EQ(repaired_json("[\"a\nb\", \"\\d\", \"\\u00e9\", \"\\u12\"]"),
            "[\"a\\nb\", \"\\\\d\", \"\\u00e9\", \"\\\\u12\"]");
  EXPECT_EQ(repaired_json("[[1, {\"a\": [2"), "[[1, {\"a\": [2]}]]");
  EXPECT_EQ(repaired_json("{\"a\" 1}"), std::nullopt);
  EXPECT_EQ(repaired_json("[1] x"), std::nullopt);
  EXPECT_EQ(repaired_json("[01]"), std::nullopt);
  EXPECT_EQ(repaired_json(std::string(200, '[')), std::nullopt);
}

}  // namespace
}  // namespace billow::output
