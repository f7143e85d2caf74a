#include "api/answer_scanner.h"

#include <gtest/gtest.h>

namespace billow::api {
namespace {

struct Whole {
  std::string content;
  std::string thinking;
  std::vector<ToolCall> calls;
};

// The answer cut into pieces of n bytes.
Whole scan(const AnswerShape& shape, const std::string& text, size_t n) {
  AnswerScanner scanner(shape);
  Whole whole;
  const auto add = [&](const Delta& delta) {
    whole.content += delta.content;
    whole.thinking += delta.thinking;
    whole.calls.insert(whole.calls.end(), delta.tool_calls.begin(), delta.tool_calls.end());
  };
  for (size_t at = 0; at < text.size(); at += n) add(scanner.add(text.substr(at, n)));
  add(scanner.finish());
  return whole;
}

const prompt::ThinkingTags kTags{"<think>", "</think>"};

TEST(AnswerScanner, PassesOnWhatIsNothingElse) {
  for (size_t n = 1; n < 20; ++n) {
    const Whole whole = scan({}, "<think>no</think> {\"name\":\"f\"}", n);
    EXPECT_EQ(whole.content, "<think>no</think> {\"name\":\"f\"}");
    EXPECT_TRUE(whole.thinking.empty() && whole.calls.empty());
  }
}

TEST(AnswerScanner, TakesThinkingAndCallsApartHoweverItIsCut) {
  const AnswerShape shape{.thinking = kTags, .tools = {"add"}, .tool_tag = "<tool_call>"};
  const std::string text =
      "<think>one and two</think>Let us see.<tool_call>\n{\"name\":\"add\",\"arguments\":{\"a\":1,"
      "\"b\":2}}\n</tool_call>";
  for (size_t n = 1; n <= text.size(); ++n) {
    const Whole whole = scan(shape, text, n);
    EXPECT_EQ(whole.thinking, "one and two") << n;
    EXPECT_EQ(whole.content, "Let us see.") << n;
    ASSERT_EQ(whole.calls.size(), 1u) << n;
    EXPECT_EQ(whole.calls[0].name, "add");
    EXPECT_EQ(whole.calls[0].arguments_json, R"({"a":1,"b":2})");
    EXPECT_EQ(whole.calls[0].index, 0u);
    EXPECT_EQ(whole.calls[0].id.size(), 13u);
    EXPECT_TRUE(whole.calls[0].id.starts_with("call_"));
  }
}

TEST(AnswerScanner, AnAnswerMayBeginInsideOfThinking) {
  const Whole whole = scan({.thinking = kTags, .begins_in_thinking = true}, "hm</think>yes", 3);
  EXPECT_EQ(whole.thinking, "hm");
  EXPECT_EQ(whole.content, "yes");
}

TEST(AnswerScanner, WhatIsHeldBackComesAtTheEnd) {
  const Whole whole = scan({.thinking = kTags}, "<think>and then it broke off </thi", 5);
  EXPECT_EQ(whole.thinking, "and then it broke off </thi");
}

TEST(ToolTagOfJinja, IsOneThatTheTemplateHas) {
  EXPECT_EQ(tool_tag_of_jinja("... '<tool_call>\\n' ..."), "<tool_call>");
  EXPECT_EQ(tool_tag_of_jinja("... [TOOL_CALLS] ..."), "[TOOL_CALLS]");
  EXPECT_EQ(tool_tag_of_jinja("{{ tools }}"), "{");
}

}  // namespace
}  // namespace billow::api
