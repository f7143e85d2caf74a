#include "api/fields.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

Fields parse(std::string_view text) { return Fields::parse(text, "ChatRequest"); }

std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    return error.what();
  }
  return "";
}

constexpr std::string_view kKnown =
    R"({"Model":"m","stream":false,"num":-3,"real":1.5,"none":null,"stop":["a",null],)"
    R"("context":[1,2],"options":{"Seed":1},"any":7,)"
    R"("messages":[{"role":"user"},null],"details":{"family":"llama"}})";

TEST(Fields, FindsValuesByNamesInAnyCase) {
  const Fields fields = parse(kKnown);
  EXPECT_EQ(fields.text("model"), "m");
  EXPECT_EQ(fields.flag("STREAM"), false);
  EXPECT_EQ(fields.integer("num"), -3);
  EXPECT_EQ(fields.number("real"), 1.5);
  EXPECT_EQ(fields.number("num"), -3.0);
  EXPECT_EQ(fields.texts("stop"), (std::vector<std::string>{"a", ""}));
  EXPECT_EQ(fields.integers("context"), (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(*fields.object("options"), Json({{"Seed", 1}}));
  EXPECT_EQ(fields.array("context")->size(), 2u);
  EXPECT_EQ(*fields.value("any"), 7);
  const auto messages = fields.objects("messages");
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].text("role"), "user");
  EXPECT_FALSE(messages[1].has("role"));
  EXPECT_EQ(fields.fields("details")->text("family"), "llama");
}

TEST(Fields, AbsentAndNullAreTheSame) {
  for (const char* text : {R"({"x":null})", "{}", "null"}) {
    const Fields fields = parse(text);
    EXPECT_FALSE(fields.has("x"));
    EXPECT_EQ(fields.text("x"), "");
    EXPECT_FALSE(fields.optional_text("x"));
    EXPECT_FALSE(fields.flag("x"));
    EXPECT_FALSE(fields.integer("x"));
    EXPECT_FALSE(fields.number("x"));
    EXPECT_TRUE(fields.texts("x").empty());
    EXPECT_TRUE(fields.integers("x").empty());
    EXPECT_EQ(fields.object("x"), nullptr);
    EXPECT_EQ(fields.array("x"), nullptr);
    EXPECT_EQ(fields.value("x"), nullptr);
    EXPECT_TRUE(fields.objects("x").empty());
    EXPECT_FALSE(fields.fields("x"));
  }
}

TEST(Fields, PrefersTheExactNameThenTheLastMatch) {
  EXPECT_EQ(parse(R"({"MODEL":"a","model":"b","Model":"c"})").text("model"), "b");
  EXPECT_EQ(parse(R"({"MODEL":"a","Model":"c"})").text("model"), "c");
}

TEST(Fields, InnerFieldsOutliveOuterOnes) {
  const auto inner = [] { return parse(R"({"a":{"b":["text"]}})").fields("a"); }();
  EXPECT_EQ(inner->texts("b"), std::vector<std::string>{"text"});
}

TEST(Fields, RefusesWrongTypesInGosWords) {
  const Fields fields =
      parse(R"({"s":"x","n":1,"r":1.5,"b":true,"a":[1],"o":{},"big":18446744073709551615,)"
            R"("messages":[{"role":1}],"list":["x",2.5],"wide":[1,4294967296]})");
  const auto go_error = [](std::string_view kind, std::string_view field, std::string_view type) {
    return "json: cannot unmarshal " + std::string(kind) + " into Go struct field ChatRequest." +
           std::string(field) + " of type " + std::string(type);
  };
  EXPECT_EQ(refusal([&] { fields.text("n"); }), go_error("number", "n", "string"));
  EXPECT_EQ(refusal([&] { fields.text("a"); }), go_error("array", "a", "string"));
  EXPECT_EQ(refusal([&] { fields.flag("s"); }), go_error("string", "s", "bool"));
  EXPECT_EQ(refusal([&] { fields.integer("s"); }), go_error("string", "s", "int"));
  EXPECT_EQ(refusal([&] { fields.integer("b"); }), go_error("bool", "b", "int"));
  EXPECT_EQ(refusal([&] { fields.integer("r"); }), go_error("number 1.5", "r", "int"));
  EXPECT_EQ(refusal([&] { fields.integer("big"); }),
            go_error("number 18446744073709551615", "big", "int"));
  EXPECT_EQ(refusal([&] { fields.number("o"); }), go_error("object", "o", "float64"));
  EXPECT_EQ(refusal([&] { fields.texts("s"); }), go_error("string", "s", "[]string"));
  EXPECT_EQ(refusal([&] { fields.texts("list"); }), go_error("number", "list", "string"));
  EXPECT_EQ(refusal([&] { fields.integers("s"); }), go_error("string", "s", "[]int"));
  EXPECT_EQ(refusal([&] { fields.integers("wide"); }),
            go_error("number 4294967296", "wide", "int"));
  EXPECT_EQ(refusal([&] { fields.object("s"); }),
            go_error("string", "s", "map[string]interface {}"));
  EXPECT_EQ(refusal([&] { fields.array("o"); }), go_error("object", "o", "[]interface {}"));
  EXPECT_EQ(refusal([&] { fields.objects("s"); }), go_error("string", "s", "[]api.S"));
  EXPECT_EQ(refusal([&] { fields.objects("list"); }), go_error("string", "list", "api.List"));
  EXPECT_EQ(refusal([&] { fields.fields("b"); }), go_error("bool", "b", "api.B"));
  EXPECT_EQ(refusal([&] { fields.objects("messages")[0].text("role"); }),
            go_error("number", "messages.role", "string"));
}

TEST(Fields, RefusesValuesThatAreNotObjects) {
  EXPECT_EQ(refusal([] { parse("[1]"); }),
            "json: cannot unmarshal array into Go value of type api.ChatRequest");
  EXPECT_EQ(refusal([] { parse("\"x\""); }),
            "json: cannot unmarshal string into Go value of type api.ChatRequest");
  EXPECT_EQ(refusal([] { Fields::parse("1.5", "openai.EmbedRequest"); }),
            "json: cannot unmarshal number into Go value of type openai.EmbedRequest");
  EXPECT_EQ(refusal([] { Fields::parse(R"({"x":1})", "openai.EmbedRequest").text("x"); }),
            "json: cannot unmarshal number into Go struct field EmbedRequest.x of type string");
  EXPECT_EQ(refusal([] { parse(""); }), "missing request body");
}

}  // namespace
}  // namespace billow::api
