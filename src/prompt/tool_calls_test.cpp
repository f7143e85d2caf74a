#include "prompt/tool_calls.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace billow::prompt {
namespace {

std::string tag_of(const std::string& branch) {
  return infer_tool_tag(GoTemplate("{{ range .Messages }}{{ if .Content }}{{ .Content }}" + branch +
                                   "{{ end }}{{ end }}"));
}

TEST(ToolCalls, TheTagIsTheTextBeforeTheCalls) {
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }}<tool_call>\n{{ range .ToolCalls }}{\"name\": "
                   "{{ .Function.Name }}}{{ end }}</tool_call>"),
            "<tool_call>");
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }}\n{{ range .ToolCalls }}<tool_call>{\"name\": "
                   "\"{{ .Function.Name }}\"}{{ end }}"),
            "<tool_call>");
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }}[TOOL_CALLS] [{{ range .ToolCalls }}{\"name\""
                   "{{ end }}]"),
            "[TOOL_CALLS] [");
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }} {{ range .ToolCalls }}\n{\"name\": \"x\"{{ end }}"),
            "{");
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }}{{ .ToolCalls }}<x>"), "{");
  EXPECT_EQ(tag_of("{{ else if .ToolCalls }}{{ $x := 1 }}<x>"), "<x>");
  EXPECT_EQ(tag_of(""), "{");
}

struct Sample {
  std::string tag;
  std::string answer;
  std::string text;
  std::string calls;  // "name arguments;" each
};

const std::vector<std::string> kNames{"get", "get_time", "say"};

const std::vector<Sample> kSamples{
    // Tags that are words: text before is content, text after is dropped.
    {"<tool_call>",
     "Hi.\n<tool_call>\n{\"name\": \"get\", \"arguments\": {\"z\": 1, \"a\": \"}\"}}\n</tool_call>",
     "Hi.\n", "get {\"z\":1,\"a\":\"}\"};"},
    {"<tool_call>",
     "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>\nand <tool_call>"
     "{\"name\": \"get_time\", \"parameters\": {\"b\": [1]}}</tool_call> bye",
     "", "get {};get_time {\"b\":[1]};"},
    {"<tool_call>", "a < b <tool", "a < b <tool", ""},
    {"<tool_call>",
     "<tool_call>{\"name\": \"unknown\", \"arguments\": {\"x\": \"get\"}}</tool_call>"
     "<tool_call>{\"name\": \"say\", \"arguments\": {}}",
     "", "say {};"},
    // A call that is cut off is content.
    {"<tool_call>", "<tool_call>{\"name\": \"get\"", "<tool_call>{\"name\": \"get\"", ""},
    {"<tool_call>", "So: <tool_call>\n", "So: <tool_call>\n", ""},
    {"<tool_call>",
     "<tool_call>{\"name\": \"get\", \"arguments\": {}}</tool_call>\n<tool_call>{\"name\": \"s",
     "<tool_call>{\"name\": \"s", "get {};"},
    {"<tool_call>",
     "<tool_call>{\"name\": \"say\", \"arguments\": {\"t\": \"a <tool_call> in a text",
     "<tool_call>{\"name\": \"say\", \"arguments\": {\"t\": \"a <tool_call> in a text", ""},
    {"[TOOL_CALLS]", "[TOOL_CALLS]get_ti", "[TOOL_CALLS]get_ti", ""},
    {"[TOOL_CALLS]", "[TOOL_CALLS] [{\"name\":\"get\",\"arguments\":{}}, {\"name\":\"say\",\"arg",
     "{\"name\":\"say\",\"arg", "get {};"},
    {"[", "[{\"name\": \"get\", \"arguments\": {}}, {\"name\": \"sa", "{\"name\": \"sa", "get {};"},
    {"<tool_call>",
     "<tool_call>{'name': 'get'} {\"name\": \"say\", \"arguments\": \"{\\\"a\\\":2}\"}", "",
     "say {\"a\":2};"},
    {"[TOOL_CALLS]", "[TOOL_CALLS]get_time{\"zone\": \"get\"}", "", "get_time {\"zone\":\"get\"};"},
    {"[TOOL_CALLS]",
     "[TOOL_CALLS] "
     "[{\"name\":\"get\",\"arguments\":{}},{\"name\":\"say\",\"arguments\":{\"t\":\"\\\"]\"}}]",
     "", "get {};say {\"t\":\"\\\"]\"};"},
    {"<function=", "<function=say>{\"t\": 1}</function>", "", "say {\"t\":1};"},
    {"<c>", "<c>{\"say\": {\"t\": 1}}", "", "say {\"t\":1};"},
    {"<c>", "<c>{\"function\": \"say\", \"arguments\": {\"t\": 1}}", "", "say {\"t\":1};"},
    {"<c>",
     "<c>{\"type\": \"function\", \"function\": {\"name\": \"say\", \"arguments\": {\"t\": 1}}}",
     "", "say {\"t\":1};"},
    {"<c>", "<c>{\"name\": \"say\"} {\"name\": \"get\", \"arguments\": {}}", "", "get {};"},
    {"<c>", "<c>get_weather{\"t\": 1}", "", ""},
    // A brace alone: the answer begins with it.
    {"{", "{\"name\": \"get\", \"parameters\": {\"a\": {}}}", "", "get {\"a\":{}};"},
    {"{", "\n {\"name\": \"get\", \"parameters\": {}} done", "\n  done", "get {};"},
    {"{", "{\"name\": \"get\", \"parameters\": {}}; {\"name\": \"say\", \"parameters\": {}}\nx",
     "\nx", "get {};say {};"},
    {"{", "So: {\"name\": \"get\", \"parameters\": {}}",
     "So: {\"name\": \"get\", \"parameters\": {}}", ""},
    {"{", "{\"answer\": 42} is it", "{\"answer\": 42} is it", ""},
    {"{", "{\"name\": \"get\", \"parame", "{\"name\": \"get\", \"parame", ""},
    {"{", "{\"name\": \"get\", \"parameters\": {}}, {\"x\": 1}", ", {\"x\": 1}", "get {};"},
    {"[",
     "[{\"name\": \"get\", \"arguments\": {\"l\": [\"]\"]}}, {\"name\": \"say\", \"arguments\": "
     "{}}] x",
     " x", "get {\"l\":[\"]\"]};say {};"},
    {"[", "[1, 2] x", "[1, 2] x", ""},
    {"[", "[{\"name\": \"get\", \"arguments\": {}}", "", "get {};"},
};

struct Result {
  std::string text;
  std::string calls;
};

void append(Result& result, const ToolCallText& out, size_t& n_calls) {
  result.text += out.text;
  for (const ToolCall& call : out.calls) {
    EXPECT_EQ(call.index, n_calls++);
    result.calls += call.name + " " + call.arguments + ";";
  }
}

Result parsed(const std::string& tag, const std::vector<std::string>& chunks) {
  ToolCallParser parser(kNames, tag);
  Result result;
  size_t n_calls = 0;
  for (const std::string& chunk : chunks) append(result, parser.add(chunk), n_calls);
  append(result, parser.finish(), n_calls);
  return result;
}

TEST(ToolCalls, AreTakenOutOfAnswers) {
  for (const Sample& sample : kSamples) {
    const Result result = parsed(sample.tag, {sample.answer});
    EXPECT_EQ(result.text, sample.text) << sample.answer;
    EXPECT_EQ(result.calls, sample.calls) << sample.answer;
  }
}

TEST(ToolCalls, AnyCutIntoChunksGivesTheSame) {
  std::mt19937 random(1);
  for (const Sample& sample : kSamples) {
    const std::string& all = sample.answer;
    const auto check = [&](const std::vector<std::string>& chunks) {
      const Result result = parsed(sample.tag, chunks);
      EXPECT_EQ(result.text, sample.text) << all;
      EXPECT_EQ(result.calls, sample.calls) << all;
    };
    for (size_t i = 0; i <= all.size(); ++i) check({all.substr(0, i), all.substr(i)});
    for (int round = 0; round < 50; ++round) {
      std::vector<std::string> chunks;
      for (size_t at = 0; at < all.size();) {
        chunks.push_back(all.substr(at, 1 + random() % 7));
        at += chunks.back().size();
      }
      check(chunks);
    }
  }
}

TEST(ToolCalls, TextAndCallsOfOneChunkBothComeOut) {
  ToolCallParser parser(kNames, "<c>");
  const ToolCallText out = parser.add("text <c>{\"name\": \"say\", \"arguments\": {}}");
  EXPECT_EQ(out.text, "text ");
  ASSERT_EQ(out.calls.size(), 1U);
  EXPECT_EQ(out.calls[0].name, "say");
}

TEST(ToolCalls, WithoutToolsEverythingIsContent) {
  ToolCallParser parser({}, "{");
  EXPECT_EQ(parser.add("{\"name\": \"get\", \"parameters\": {}}").text,
            "{\"name\": \"get\", \"parameters\": {}}");
}

TEST(ToolCalls, DeepObjectsAreNoCalls) {
  std::string deep = "{\"name\": \"get\", \"arguments\": ";
  for (int i = 0; i < 100'000; ++i) deep += "{\"a\":";
  deep += "1";
  for (int i = 0; i < 100'001; ++i) deep += "}";
  EXPECT_EQ(parsed("<c>", {"<c>" + deep}).calls, "");
  EXPECT_EQ(parsed("{", {deep}).text, deep);
}

}  // namespace
}  // namespace billow::prompt
