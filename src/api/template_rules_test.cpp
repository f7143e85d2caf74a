#include "api/template_rules.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/json.h"
#include "base/test_source_dir.h"

namespace billow::api {
namespace {

namespace fs = std::filesystem;

const fs::path kTemplates = fs::path(source_dir()) / "../shared/data/templates";

TemplateRules rules_of(const std::string& source) {
  return rules_of_jinja(prompt::ChatTemplate(source), source);
}

std::string names(const TemplateRules& rules) {
  std::string text;
  if (rules.has_short_ids) text += " short ids";
  if (rules.has_single_calls) text += " single calls";
  if (rules.has_text_arguments) text += " text arguments";
  if (rules.has_lone_calls) text += " lone calls";
  if (rules.has_one_system) text += " one system";
  if (rules.has_no_empty_answers) text += " no empty answers";
  if (rules.has_null_contents) text += " null contents";
  if (rules.has_functions) text += " functions";
  return text;
}

// Writes messages as "role(id):text{name/id name/id};".
std::string shown(const std::vector<Message>& messages) {
  std::string text;
  for (const Message& message : messages) {
    text += message.role;
    if (!message.tool_call_id.empty()) text += "(" + message.tool_call_id + ")";
    text += ":" + message.text();
    for (const ToolCall* call : message.tool_calls()) text += "{" + call->name + call->id + "}";
    text += ";";
  }
  return text;
}

std::string fitted(const TemplateRules& rules, std::vector<Message> messages) {
  fit_messages(rules, messages);
  return shown(messages);
}

Part call(const char* name, const char* id) { return ToolCall{.id = id, .name = name}; }

Message result(const char* text, const char* id) {
  return {.role = "tool", .parts = {TextPart{text}}, .tool_call_id = id};
}

// A template that shows each call in this way.
std::string with_calls(const std::string& call) {
  return "{% for m in messages %}{{ m.role }}{% if m.tool_calls %}{% if m.content %}"
         "{{ m.content }}{% endif %}{% for c in m.tool_calls %}" +
         call + "{% endfor %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
}

TEST(TemplateRules, AboutCallsAreFoundByRendering) {
  EXPECT_EQ(names(rules_of(with_calls("{{ c.function.arguments | tojson }}"))), "");
  EXPECT_EQ(names(rules_of(with_calls("{{ c.function.name + c.function.arguments }}"))),
            " text arguments");
  EXPECT_EQ(names(rules_of(with_calls("{% if m.content is none %}"
                                      "{{ c.function.arguments | tojson }}{% endif %}"))),
            " null contents");
  EXPECT_EQ(names(rules_of(with_calls("{% if m.content is none %}"
                                      "{{ 'f' + c.function.arguments }}{% endif %}"))),
            " text arguments null contents");
  EXPECT_EQ(names(rules_of(with_calls(
                "{% if m.tool_calls | length > 1 %}{{ raise_exception('one') }}{% endif %}"
                "{{ c.function.arguments | tojson }}"))),
            " single calls");
  EXPECT_EQ(names(rules_of(with_calls("{% if loop.first %}"
                                      "{{ c.function.arguments | tojson }}{% endif %}"))),
            " single calls");
  EXPECT_EQ(names(rules_of(with_calls("{% if c.id|length != 9 %}{{ raise_exception('length') }}"
                                      "{% endif %}{{ c.function.arguments | tojson }}"))),
            " short ids");
  EXPECT_EQ(names(rules_of("{% for m in messages %}{% if m.content %}{{ m.content }}"
                           "{% elif m.tool_calls %}{{ m.tool_calls | tojson }}{% endif %}"
                           "{% endfor %}")),
            " lone calls");
}

TEST(TemplateRules, AboutMessagesAreFoundByRendering) {
  EXPECT_EQ(names(rules_of("{% for m in messages %}{{ m.content }}{% endfor %}")), "");
  EXPECT_EQ(names(rules_of("{{ raise_exception('never') }}")), "");
  EXPECT_EQ(names(rules_of("{{ messages[0].content }}{% for m in messages %}"
                           "{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}")),
            " one system");
  EXPECT_EQ(names(rules_of("{% for m in messages %}{% if m.content == '' %}"
                           "{{ raise_exception('empty') }}{% endif %}{{ m.content }}{% endfor %}")),
            " no empty answers");
  EXPECT_TRUE(rules_of("{% for m in messages %}{% if m.role == 'developer' %}{{ m.content }}"
                       "{% endif %}{% endfor %}")
                  .has_developer_role);
  EXPECT_FALSE(rules_of("{% for m in messages %}{% if m.role in ['user', 'developer'] %}"
                        "{% set last = loop.index %}{% endif %}{% endfor %}")
                   .has_developer_role);
}

TEST(TemplateRules, SomeTemplatesNeedFunctionsAndADate) {
  const std::string source =
      "{{ 'F:' + functions + ' D:' + datetime }}{% for m in messages %}{{ m.content }}{% endfor %}";
  const TemplateRules rules = rules_of(source);
  EXPECT_EQ(names(rules), " functions");
  Json input = {{"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  add_tools(rules, {{{"type", "function"}, {"function", {{"name", "f"}}}}}, input);
  const std::string text = prompt::ChatTemplate(source).render(input);
  EXPECT_TRUE(text.starts_with("F:[\n    {\n        \"name\": \"f\"\n    }\n] D:20")) << text;
  EXPECT_TRUE(text.ends_with("hi"));

  input = Json::object();
  add_tools(rules, nullptr, input);
  EXPECT_EQ(input["functions"], "[]");
  EXPECT_FALSE(input.contains("tools"));
  input = Json::object();
  add_tools({}, Json::array(), input);
  EXPECT_EQ(input, Json({{"tools", Json::array()}}));
}

TEST(TemplateRules, OfKnownTemplates) {
  if (!fs::exists(kTemplates)) GTEST_SKIP() << "no templates at " << kTemplates;
  const std::map<std::string, std::string> wanted = {
      {"Apertus-8B-Instruct", " one system"},
      {"Bielik-11B-v3.0-Instruct", " one system"},
      {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", " lone calls"},
      {"GigaChat3-10B-A1.8B", " single calls"},
      {"GigaChat3.1-10B-A1.8B", " single calls"},
      {"HuggingFaceTB-SmolLM3-3B", " one system"},
      {"Mistral-Small-3.2-24B-Instruct-2506", " short ids lone calls one system"},
      {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", " lone calls"},
      {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", " lone calls"},
      {"Reka-Edge", " one system"},
      {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", " text arguments one system null contents"},
      {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", " one system"},
      {"fireworks-ai-llama-3-firefunction-v2", " functions"},
      {"llama-cpp-deepseek-r1", " lone calls one system"},
      {"llama-cpp-rwkv-world", " one system"},
      {"meta-llama-Llama-3.1-8B-Instruct", " single calls lone calls"},
      {"meta-llama-Llama-3.2-3B-Instruct", " single calls lone calls"},
      {"meta-llama-Llama-3.3-70B-Instruct", " single calls lone calls"},
      {"mistralai-Ministral-3-14B-Reasoning-2512", " one system no empty answers"}};
  for (const auto& entry : fs::directory_iterator(kTemplates)) {
    if (entry.path().extension() != ".jinja") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    const std::string source{std::istreambuf_iterator<char>(in), {}};
    const auto row = wanted.find(entry.path().stem().string());
    EXPECT_EQ(names(rules_of(source)), row == wanted.end() ? "" : row->second) << entry.path();
  }
}

TEST(TemplateRules, ResultsComeInTheOrderOfTheirCalls) {
  const Message calls{.role = "assistant", .parts = {call("f", "1"), call("g", "2")}};
  const auto of_tool = [](const char* text, const char* tool) {
    return Message{.role = "tool", .parts = {TextPart{text}}, .tool_name = tool};
  };
  EXPECT_EQ(fitted({}, {calls, result("two", "2"), result("one", "1")}),
            "assistant:{f1}{g2};tool(1):one;tool(2):two;");
  EXPECT_EQ(fitted({}, {calls, of_tool("two", "g"), of_tool("one", "f")}),
            "assistant:{f1}{g2};tool:one;tool:two;");
  EXPECT_EQ(fitted({.has_ids = true}, {calls, of_tool("two", "g"), of_tool("one", "f")}),
            "assistant:{f1}{g2};tool(1):one;tool(2):two;");
}

TEST(TemplateRules, CallsWithoutIdsOrWithTheSameIdGetIds) {
  const TemplateRules rules{.has_ids = true};
  EXPECT_EQ(fitted(rules,
                   {{.role = "assistant", .parts = {call("f", ""), call("g", "x"), call("h", "x")}},
                    result("one", ""),
                    result("two", "x"),
                    result("three", "x")}),
            "assistant:{fcall00000}{gx}{hcall00001};tool(call00000):one;tool(x):two;"
            "tool(call00001):three;");
  EXPECT_EQ(fitted({.has_ids = true, .has_short_ids = true},
                   {{.role = "assistant", .parts = {call("f", "a")}},
                    text_message("user", "go on"),
                    {.role = "assistant", .parts = {call("g", "b")}},
                    result("r", "")}),
            "assistant:{fcall00000};user:go on;assistant:{gcall00001};tool(call00001):r;")
      << "a call without a result gets none of a later call";
}

TEST(TemplateRules, SystemMessagesAreJoinedAndEmptyAnswersLeftOut) {
  EXPECT_EQ(
      fitted({.has_one_system = true},
             {text_message("system", "a"), text_message("system", "b"), text_message("user", "q")}),
      "system:a\n\nb;user:q;");
  EXPECT_EQ(
      fitted({.has_no_empty_answers = true}, {text_message("user", "q"),
                                              {.role = "assistant", .parts = {ThinkingPart{"hm"}}},
                                              {.role = "assistant", .parts = {call("f", "1")}},
                                              text_message("user", "r")}),
      "user:q;assistant:{f1};user:r;");
}

TEST(TemplateRules, EachSingleCallIsFollowedByItsResult) {
  const TemplateRules rules{.has_single_calls = true};
  const Message calls{.role = "assistant",
                      .parts = {ThinkingPart{"t"}, TextPart{"I look."}, call("f", "1"),
                                call("g", "2"), call("h", "")}};
  EXPECT_EQ(fitted(rules, {text_message("user", "q"), calls, result("two", "2"), result("one", "1"),
                           result("three", ""), text_message("user", "and")}),
            "user:q;assistant:I look.{f1};tool(1):one;assistant:{g2};tool(2):two;assistant:{h};"
            "tool:three;user:and;");
  EXPECT_EQ(fitted(rules, {calls, result("a", ""), result("b", ""), result("c", "")}),
            "assistant:I look.{f1};tool:a;assistant:{g2};tool:b;assistant:{h};tool:c;")
      << "results without ids come in the order of the calls";
  EXPECT_EQ(fitted(rules, {calls, result("two", "2")}),
            "assistant:I look.{f1};assistant:{g2};tool(2):two;assistant:{h};")
      << "a call may have no result";
  EXPECT_EQ(fitted(rules, {{.role = "assistant", .parts = {call("f", "1")}},
                           result("one", "1"),
                           result("more", "1")}),
            "assistant:{f1};tool(1):one;tool(1):more;");
  EXPECT_EQ(fitted({}, {calls, result("one", "1")}), "assistant:I look.{f1}{g2}{h};tool(1):one;");
}

TEST(TemplateRules, TextsComeBeforeCallsWithNullContents) {
  const TemplateRules rules{.has_null_contents = true};
  EXPECT_EQ(fitted(rules, {{.role = "assistant", .parts = {TextPart{"I look."}, call("f", "1")}},
                           {.role = "assistant", .parts = {call("g", "2")}},
                           text_message("assistant", "done")}),
            "assistant:I look.;assistant:{f1};assistant:{g2};assistant:done;");
}

TEST(TemplateRules, SeveralRulesTogether) {
  const TemplateRules all{
      .has_short_ids = true, .has_single_calls = true, .has_null_contents = true};
  EXPECT_EQ(fitted(all, {{.role = "assistant",
                          .parts = {TextPart{"text"}, call("f", "call_1"), call("g", "call_2")}},
                         result("two", "call_2"),
                         result("one", "call_1")}),
            "assistant:text;assistant:{fcall00000};tool(call00000):one;assistant:{gcall00001};"
            "tool(call00001):two;");
}

}  // namespace
}  // namespace billow::api
