#include "api/prompt_builder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>

#include "api/sample_served.h"
#include "http/status.h"
#include "image/picture.h"

namespace billow::api {
namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
    return "none";
  } catch (const http::StatusError& error) {
    return std::to_string(error.status()) + " " + error.what();
  }
}

Tool tool(const std::string& name) {
  return {.name = name, .declaration = {{"type", "function"}, {"function", {{"name", name}}}}};
}

class PromptBuilder : public testing::Test {
 protected:
  std::string text(const Sample& sample, const GenerationRequest& request) {
    return build(sample, request).text;
  }
  BuiltPrompt build(const Sample& sample, const GenerationRequest& request,
                    PromptLimits limits = {2048, -1}) {
    models.add(sample);
    return build_prompt(*models.catalog.find(sample.name), request, limits);
  }
  static GenerationRequest prompt(const std::string& text) {
    GenerationRequest request{.kind = GenerationKind::kPrompt, .model = "m"};
    request.prompt = text;
    return request;
  }
  static GenerationRequest chat(std::vector<Message> messages) {
    GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
    request.messages = std::move(messages);
    return request;
  }
  SampleStore models;
};

TEST_F(PromptBuilder, RendersAPromptWithTheTemplate) {
  EXPECT_EQ(text({.go = kLines}, prompt("hi")), "user: hi\nassistant:");
  EXPECT_EQ(text({.go = kLines, .system = "be brief"}, prompt("hi")),
            "system: be brief\nuser: hi\nassistant:");
  GenerationRequest request = prompt("hi");
  request.system = "be long";
  EXPECT_EQ(text({.go = kLines, .system = "be brief"}, request),
            "system: be long\nuser: hi\nassistant:");
}

TEST_F(PromptBuilder, AddsMessagesOfTheModel) {
  const Sample sample{.go = kLines, .system = "s", .messages = {{"user", "a"}, {"assistant", "b"}}};
  EXPECT_EQ(text(sample, prompt("hi")), "system: s\nuser: a\nassistant: b\nuser: hi\nassistant:");
  EXPECT_EQ(text(sample, chat({text_message("user", "c")})),
            "system: s\nuser: a\nassistant: b\nuser: c\nassistant:");
  EXPECT_EQ(text(sample, chat({text_message("system", "own"), text_message("user", "c")})),
            "system: own\nuser: a\nassistant: b\nuser: c\nassistant:");
}

TEST_F(PromptBuilder, DeveloperIsSystemForTemplatesWithoutTheRole) {
  const std::vector<Message> messages = {text_message("developer", "own"),
                                         text_message("user", "c"),
                                         text_message("developer", "more")};
  EXPECT_EQ(text({.go = kLines, .system = "s"}, chat(messages)),
            "system: own\nuser: c\nsystem: more\nassistant:");
  const std::string knows = "{{- /* 'developer' */ -}}" + std::string(kLines);
  EXPECT_EQ(text({.name = "n", .go = knows, .system = "s"}, chat(messages)),
            "developer: own\nuser: c\ndeveloper: more\nassistant:");
  // The template of gpt-oss writes this word, but asks for the role "system".
  const std::string writes = "<|start|>developer<|message|>" + std::string(kLines);
  EXPECT_EQ(text({.name = "w", .go = writes, .system = "s"}, chat(messages)),
            "<|start|>developer<|message|>system: own\nuser: c\nsystem: more\nassistant:");
}

TEST_F(PromptBuilder, RequestsMayHaveATemplate) {
  GenerationRequest request = prompt("hi");
  request.template_text = "<{{ .System }}|{{ .Prompt }}>";
  request.system = "s";
  EXPECT_EQ(text({.go = kLines}, request), "<s|hi>");
  request.template_text = "{{ .Prompt";
  EXPECT_TRUE(refusal([&] { text({.go = kLines}, request); }).starts_with("500 template: "));
}

TEST_F(PromptBuilder, NC28_RawPromptsStayAsTheyAreAndAContextComesFirst) {
  GenerationRequest raw = prompt("hello hello");
  raw.raw = true;
  const BuiltPrompt built = build({.go = kLines, .system = "s"}, raw);
  EXPECT_EQ(built.text, "hello hello");
  EXPECT_EQ(built.tokens.size(), 2u) << "the vocabulary has hello with and without a leading blank";
  GenerationRequest more = prompt("hi");
  more.context = built.tokens;
  const BuiltPrompt longer = build({.go = kLines, .messages = {{"user", "a"}}}, more);
  EXPECT_EQ(longer.text, "user: hi\nassistant:") << "a context replaces the model's messages";
  EXPECT_EQ(std::vector<int32_t>(longer.tokens.begin(), longer.tokens.begin() + 2), built.tokens);
  more.context = {9999};
  EXPECT_TRUE(refusal([&] { build({.go = kLines}, more); }).starts_with("400 context has the id"));
}

TEST_F(PromptBuilder, ContextsHaveNoBosAndPromptsHaveOne) {
  const Sample sample{.go = kLines, .add_bos = true};
  const BuiltPrompt first = build(sample, prompt("hi"));
  const auto model = models.catalog.find("m");
  const tokenizer::TokenId bos = model->weights->tokenizer.bos();
  ASSERT_EQ(first.tokens.front(), bos);
  GenerationRequest more = prompt("and");
  more.context = context_of(*model, first.tokens, {3, 4});
  EXPECT_EQ(more.context.size(), first.tokens.size() + 1);
  EXPECT_EQ(std::ranges::count(more.context, bos), 0);
  const BuiltPrompt second = build_prompt(*model, more, {2048, -1});
  EXPECT_EQ(second.tokens.front(), bos);
  EXPECT_EQ(std::ranges::count(second.tokens, bos), 1);
  more.context.insert(more.context.begin(), bos);  // contexts of older servers include it
  EXPECT_EQ(build_prompt(*model, more, {2048, -1}).tokens, second.tokens);
}

TEST_F(PromptBuilder, WithoutATemplateTextsStayAsTheyAre) {
  EXPECT_EQ(text({}, prompt("hi")), "hi");
  EXPECT_EQ(text({}, chat({text_message("user", "hi")})), "hi");
  EXPECT_EQ(text({}, chat({text_message("user", "1, 2,"), text_message("assistant", " 3,"),
                           text_message("user", " 4,")})),
            "1, 2, 3, 4,");
}

TEST_F(PromptBuilder, JinjaTemplatesGetToolsThinkingAndPrefills) {
  const Sample sample{
      .jinja =
          "{% if tools %}T{{ tools[0].function.name }};{% endif %}{% for m in messages %}"
          "{{ m.role }}={{ m.content }}{% if m.tool_calls %}!{{ "
          "m.tool_calls[0].function.arguments.a }}{% endif %}<|im_end|>{% endfor %}{% if "
          "add_generation_prompt %}assistant={% if enable_thinking %}<think>{% else "
          "%}</think>{% endif %}{% endif %}{# 'tool' #}"};
  GenerationRequest request = chat({text_message("user", "q")});
  request.tools = {tool("add")};
  BuiltPrompt built = build(sample, request);
  EXPECT_EQ(built.text, "Tadd;user=q<|im_end|>assistant=<think>");
  EXPECT_EQ(built.start.state, output::StartState::kThinking);
  request.think.enabled = false;
  request.tools.clear();
  EXPECT_EQ(text(sample, request), "user=q<|im_end|>assistant=</think>");
  EXPECT_EQ(build(sample, request).start.state, output::StartState::kText);
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), text_message("assistant", "It is")})),
            "user=q<|im_end|>assistant=It is")
      << "an answer that has begun is continued";
  EXPECT_EQ(
      text(sample,
           chat({{.role = "assistant", .parts = {ToolCall{.name = "add", .arguments = {{"a", 7}}}}},
                 {.role = "tool", .parts = {TextPart{"8"}}, .tool_name = "add"}})),
      "assistant=!7<|im_end|>tool=8<|im_end|>assistant=<think>");
}

// Like Mistral's templates.
TEST_F(PromptBuilder, IdsOfCallsFitTheTemplate) {
  const Sample sample{
      .jinja =
          "{% for m in messages %}{{ m.role }}:{% for c in m.tool_calls %}"
          "{% if c.id is not defined or c.id|length != 9 %}{{ raise_exception('length') }}"
          "{% endif %}{{ c.id }},{% endfor %}{% if m.role == 'tool' %}"
          "{% if m.tool_call_id is not defined or m.tool_call_id|length != 9 %}"
          "{{ raise_exception('length') }}{% endif %}{{ m.tool_call_id }}{% endif %};{% endfor %}"};
  const auto call = [](const char* id) { return ToolCall{.id = id, .name = "f"}; };
  const auto result = [](const char* id) { return Message{.role = "tool", .tool_call_id = id}; };
  const Message calls{.role = "assistant", .parts = {call("call_1"), call("abcDEF123"), call("")}};
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), calls, result("abcDEF123"),
                               result("call_1"), result("")})),
            "user:;assistant:call00001,abcDEF123,call00000,;tool:call00001;tool:abcDEF123;"
            "tool:call00000;");
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), result("toolu_1")})),
            "user:;tool:call00000;");
}

TEST_F(PromptBuilder, MessagesFitTheWordingOfTheTemplate) {
  const Sample sample{
      .jinja =
          "{% for m in messages %}{{ m.role }}{% if m.tool_calls %}{% if m.content is none %}"
          "{% for c in m.tool_calls %}{{ '<' + c.function.name + c.function.arguments + '>' }}"
          "{% endfor %}{% endif %}{% else %}={{ m.content }}{% endif %};{% endfor %}{# 'tool' #}"};
  const Message calls{.role = "assistant",
                      .parts = {TextPart{"I look."}, ToolCall{.name = "f", .arguments = {{"a", 1}}},
                                ToolCall{.name = "g", .arguments = {{"b", "x"}}}}};
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), calls, text_message("tool", "r")})),
            R"(user=q;assistant=I look.;assistant<f{"a":1}><g{"b":"x"}>;tool=r;)");
}

TEST_F(PromptBuilder, TemplatesOfModelsThatThinkGetBothVariables) {
  const std::string variables =
      "{% if thinking is defined %}[{{ thinking }}]{% endif %}[{{ enable_thinking }}]";
  const Sample thinks{.jinja = variables + "{# <think></think> #}"};
  GenerationRequest request = chat({text_message("user", "q")});
  EXPECT_EQ(text(thinks, request), "[True][True]");
  request.think.enabled = false;
  EXPECT_EQ(text(thinks, request), "[False][False]");
  request.think.enabled.reset();
  request.model = "n";
  EXPECT_EQ(text({.name = "n", .jinja = variables}, request), "[False]");
}

TEST_F(PromptBuilder, ContinuesExactlyTheTextOfAFinalAnswer) {
  const Sample jinja{.jinja =
                         "{% for m in messages %}<|im_start|>{{ m.role }}\n"
                         "{{ m.content | trim }}<|im_end|>\n{% endfor %}"
                         "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"};
  const Sample go{.name = "g",
                  .go =
                      "{{ range .Messages }}<|im_start|>{{ .Role }}\n{{ .Content }}<|im_end|>\n"
                      "{{ end }}<|im_start|>assistant\n"};
  for (const Sample& sample : {jinja, go}) {
    const std::string question = "<|im_start|>user\nq<|im_end|>\n";
    for (const char* begun : {"m", "<", "|", "end", "_", "im_start", "<|im_end|>", "It is"}) {
      EXPECT_EQ(text(sample, chat({text_message("user", "q"), text_message("assistant", begun)})),
                question + "<|im_start|>assistant\n" + begun);
    }
    // Another message is not continued.
    EXPECT_EQ(text(sample, chat({text_message("user", "q")})),
              question + "<|im_start|>assistant\n");
  }
  // A blank at the end is no text to continue, in templates that trim messages.
  EXPECT_EQ(text(jinja, chat({text_message("user", "q"), text_message("assistant", "a \n")})),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na");
}

TEST_F(PromptBuilder, AFinalAnswerWithoutTextBeginsANewOne) {
  const Sample sample{.jinja =
                          "{% for m in messages %}{{ m.role }}={{ m.content }}<|im_end|>"
                          "{% endfor %}{% if add_generation_prompt %}assistant={% endif %}"};
  for (const char* empty : {"", " ", "\n"})
    EXPECT_EQ(text(sample, chat({text_message("user", "q"), text_message("assistant", empty)})),
              "user=q<|im_end|>assistant=");
  // This template shows no thinking.
  const Message thought{.role = "assistant", .parts = {ThinkingPart{"hm"}}};
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), thought})), "user=q<|im_end|>assistant=");
  const Sample go{.name = "g",
                  .go =
                      "{{ range .Messages }}{{ .Role }}={{ .Content }}<|im_end|>{{ end }}"
                      "assistant="};
  for (const Message& last : {text_message("assistant", ""), thought})
    EXPECT_EQ(text(go, chat({text_message("user", "q"), last})), "user=q<|im_end|>assistant=");
}

TEST_F(PromptBuilder, ContinuesTheThinkingOfAFinalAnswerWithoutText) {
  const Sample sample{.jinja =
                          "{% for m in messages %}{{ m.role }}={% if m.reasoning_content %}"
                          "<think>{{ m.reasoning_content }}</think>{% endif %}{{ m.content }}"
                          "<|im_end|>{% endfor %}{% if add_generation_prompt %}assistant="
                          "{% if enable_thinking %}<think>{% endif %}{% endif %}"};
  const Message thought{.role = "assistant", .parts = {ThinkingPart{"hm"}}};
  const BuiltPrompt built = build(sample, chat({text_message("user", "q"), thought}));
  EXPECT_EQ(built.text, "user=q<|im_end|>assistant=<think>hm");
  EXPECT_EQ(built.start.state, output::StartState::kThinking);
  const Sample go{
      .name = "g",
      .go =
          "{{ range .Messages }}{{ .Role }}={{ if .Thinking }}<think>{{ .Thinking }}</think>"
          "{{ end }}{{ .Content }}<|im_end|>{{ end }}assistant="};
  for (const std::string words : {"hm", "assistant"}) {  // the template ends with this word
    const Message last{.role = "assistant", .parts = {ThinkingPart{words}}};
    const BuiltPrompt of_go = build(go, chat({text_message("user", "q"), last}));
    EXPECT_EQ(of_go.text, "user=q<|im_end|>assistant=<think>" + words);
    EXPECT_EQ(of_go.start.state, output::StartState::kThinking);
  }
  const Message both{.role = "assistant", .parts = {ThinkingPart{"hm"}, TextPart{"It"}}};
  EXPECT_EQ(text(sample, chat({text_message("user", "q"), both})),
            "user=q<|im_end|>assistant=<think>hm</think>It");
}

TEST_F(PromptBuilder, TemplatesThatHideAFinalAnswerCannotContinueIt) {
  const Sample sample{.jinja =
                          "{% for m in messages if m.role == 'user' %}{{ m.content }};"
                          "{% endfor %}"};
  EXPECT_TRUE(refusal([&] {
                text(sample, chat({text_message("user", "q"), text_message("assistant", "a")}));
              }).starts_with("400 the chat template of this model does not show a final"));
}

TEST_F(PromptBuilder, HarmonyGetsThinkingInItsField) {
  const Sample sample{
      .jinja =
          "<|start|>{% for m in messages %}<|start|>{{ m.role }}{% if m.thinking %}"
          "<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}"
          "{% if m.content and m.thinking and m.tool_calls %}{{ raise_exception('both') }}"
          "{% endif %}<|channel|>final<|message|>{{ m.content }}<|end|>{% endfor %}",
      .parser = "harmony"};
  const Message call{
      .role = "assistant",
      .parts = {ThinkingPart{"hm"}, TextPart{"text"}, ToolCall{.name = "f", .arguments = {}}}};
  const std::string shown = text(sample, chat({text_message("user", "q"), call}));
  EXPECT_NE(shown.find("<|channel|>analysis<|message|>hm<|end|>"), std::string::npos) << shown;
}

TEST_F(PromptBuilder, HarmonyNamesToolsByIdentifiers) {
  Sample sample{.jinja =
                    "{% for t in tools %}{{ t.function.name }} {% endfor %}{% for m in messages %}"
                    "{% if m.tool_calls %}!{{ m.tool_calls[0].function.name }}{% endif %}"
                    "{{ m.name }}{{ m.content }};{% endfor %}",
                .parser = "harmony"};
  GenerationRequest request =
      chat({text_message("user", "q"),
            {.role = "assistant", .parts = {ToolCall{.name = "get-weather", .arguments = {}}}},
            {.role = "tool", .parts = {TextPart{"8"}}, .tool_name = "get-weather"},
            {.role = "tool", .parts = {TextPart{"9"}}, .tool_name = "no longer there"}});
  request.tools = {tool("get.weather"), tool("get-weather")};
  EXPECT_TRUE(text(sample, request)
                  .starts_with("get_weather get_weather_2 q;!get_weather_2;get_weather_28;"
                               "no_longer_there9;"));
  sample.parser = "qwen3";
  EXPECT_TRUE(text(sample, request).starts_with("get.weather get-weather q;!get-weather;"));
}

TEST_F(PromptBuilder, FillsGapsIfTheTemplateSupportsIt) {
  GenerationRequest request = prompt("def f():");
  request.suffix = "return x";
  EXPECT_EQ(text({.go = "<P>{{ .Prompt }}<S>{{ .Suffix }}<M>{{ .Response }}"}, request),
            "<P>def f():<S>return x<M>");
}

std::vector<Message> long_chat(size_t n) {
  std::vector<Message> messages = {text_message("system", "stay")};
  for (size_t i = 0; i < n; ++i) {
    messages.push_back(text_message("user", "question " + std::to_string(i)));
    messages.push_back(text_message("assistant", "answer " + std::to_string(i)));
  }
  messages.push_back(text_message("user", "the last one"));
  return messages;
}

TEST_F(PromptBuilder, TR2_DropsOldMessagesButNeverTheSystemOrTheLastOne) {
  const BuiltPrompt built = build({.go = kLines}, chat(long_chat(40)), {512, 100});
  EXPECT_TRUE(built.text.starts_with("system: stay\n"));
  EXPECT_TRUE(built.text.ends_with("user: the last one\nassistant:"));
  EXPECT_TRUE(built.text.find("question 39") != std::string::npos) << "the latest stay";
  EXPECT_TRUE(built.text.find("question 0\n") == std::string::npos);
  EXPECT_LE(built.tokens.size(), 412u) << "with room for the answer";
  EXPECT_GT(built.tokens.size(), 412u / 2 - 40) << "at most half of the room and a turn is free";
  EXPECT_GT(built.n_full, 512u);
  EXPECT_GT(built.n_left_out, 0u);
  EXPECT_EQ(built.n_left_out % 2, 0u) << "an answer is dropped with its question";
}

// Returns the first line after the system message in a prompt of kLines.
std::string first_line(const BuiltPrompt& built) {
  const size_t begin = built.text.find('\n') + 1;
  return built.text.substr(begin, built.text.find('\n', begin) - begin);
}

TEST_F(PromptBuilder, GrowingConversationKeepsItsBeginningForSeveralTurns) {
  const Sample jinja{.name = "j",
                     .jinja =
                         "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                         "{% if add_generation_prompt %}assistant:{% endif %}"};
  for (const Sample& sample : {Sample{.go = kLines}, jinja}) {
    std::vector<std::string> begins;
    for (size_t n = 10; n < 70; ++n) {
      GenerationRequest request = chat(long_chat(n));
      request.model = sample.name;
      const BuiltPrompt built = build(sample, request, {512, 100});
      EXPECT_LE(built.n_renderings, 4u);
      if (built.n_left_out > 0) begins.push_back(first_line(built));
    }
    const std::set<std::string> different(begins.begin(), begins.end());
    EXPECT_GT(begins.size(), 40u);
    EXPECT_LE(different.size() * 4, begins.size()) << "a turn has about 40 tokens of 412";
  }
}

TEST_F(PromptBuilder, DropsToolCallsWithTheirResultsAndKeepsTheQuestion) {
  std::vector<Message> messages = {
      text_message("developer", "stay"), text_message("user", "older question"),
      text_message("assistant", "older answer"), text_message("user", "the question")};
  for (int i = 0; i < 40; ++i) {
    messages.push_back({.role = "assistant", .parts = {ToolCall{.name = "f"}}});
    messages.push_back(text_message("tool", "result " + std::to_string(i)));
  }
  const BuiltPrompt built = build({.go = kLines}, chat(messages), {512, 100});
  EXPECT_TRUE(built.text.starts_with("system: stay\nuser: the question\nassistant: \ntool: "))
      << built.text;
  EXPECT_TRUE(built.text.ends_with("tool: result 39\nassistant:"));
  EXPECT_EQ(built.n_left_out % 2, 0u);
}

TEST_F(PromptBuilder, ShortensConversationsBeyondTheTemplatesLimits) {
  // The template may run a million instructions, which is not enough for the whole conversation.
  const Sample sample{.jinja =
                          "{% for m in messages %}{% for i in range(3000) %}{% endfor %}"
                          "{{ m.role }}: {{ m.content }}\n{% endfor %}"};
  const BuiltPrompt built = build(sample, chat(long_chat(200)), {512, 100});
  EXPECT_TRUE(built.text.ends_with("user: the last one\n"));
  EXPECT_GT(built.n_full, 512u) << "the size of the dropped messages is an estimate";
  GenerationRequest strict = chat(long_chat(200));
  strict.truncate = false;
  EXPECT_TRUE(refusal([&] {
                build(sample, strict, {512, 100});
              }).starts_with("400 the model's template refuses the conversation: "));
}

TEST_F(PromptBuilder, MessageThatNeedsTooMuchMemoryHarmsNoOtherRequest) {
  const Sample sample{
      .jinja = "{% for m in messages %}{{ ('%' ~ m.content ~ 'd') | format(1) }}{% endfor %}"};
  for (int i = 0; i < 3; ++i) {
    const std::string why =
        refusal([&] { build(sample, chat({text_message("user", "999999999")})); });
    EXPECT_EQ(why,
              "400 the model's template refuses the conversation: chat template: the template "
              "needs too much memory");
    EXPECT_EQ(text(sample, chat({text_message("user", "3")})), "  1");
  }
}

TEST_F(PromptBuilder, CheckCanCancelTheWork) {
  struct Gone {};
  models.add({.go = kLines});
  const auto model = models.catalog.find("m");
  const GenerationRequest request = chat(long_chat(400));
  size_t n_checks = 0;
  const BuiltPrompt built = build_prompt(*model, request, {512, 100}, [&] { ++n_checks; });
  EXPECT_GE(n_checks, built.n_renderings + request.messages.size());
  EXPECT_LE(built.n_renderings, 4u);
  for (size_t n_before = 0; n_before < n_checks; ++n_before) {
    size_t n = 0;
    const auto check = [&] {
      if (n++ == n_before) throw Gone();
    };
    EXPECT_THROW(build_prompt(*model, request, {512, 100}, check), Gone);
    ASSERT_EQ(n, n_before + 1) << "nothing is done after the check";
    if (n_before == 3) n_before = n_checks - 4;  // only the first and the last checks are tested
  }
}

TEST_F(PromptBuilder, RefusesTooLongPromptsWithBothNumbers) {
  const std::string text(600, 'x');
  const std::string expected =
      "400 the prompt is longer than the context length currently available to the model: it has ";
  GenerationRequest raw = prompt(text);
  raw.raw = true;
  for (const GenerationRequest& request :
       {prompt(text), raw, chat({text_message("user", text)}),
        chat({text_message("system", text), text_message("user", "q")})}) {
    const std::string why = refusal([&] { build({.go = kLines}, request, {512, -1}); });
    // Clients of Anthropic and OpenAI look for these words.
    EXPECT_NE(why.find("prompt is too long: "), std::string::npos) << why;
    EXPECT_NE(why.find("maximum context length is 512 tokens"), std::string::npos) << why;
    EXPECT_TRUE(why.starts_with(expected)) << why;
    EXPECT_NE(why.find("the context 512;"), std::string::npos) << why;
  }
  for (const bool truncate : {true, false}) {
    GenerationRequest strict = chat(long_chat(40));
    strict.truncate = truncate;
    if (truncate) strict.shift = false;
    EXPECT_TRUE(refusal([&] { build({.go = kLines}, strict, {512, -1}); }).starts_with(expected));
  }
}

TEST_F(PromptBuilder, PromptMayFillTheContextExceptOneToken) {
  GenerationRequest raw = prompt(std::string(511, 'x'));
  raw.raw = true;
  EXPECT_EQ(build({}, raw, {512, -1}).tokens.size(), 511u);
  raw.prompt += 'x';
  EXPECT_NE(refusal([&] { build({}, raw, {512, 1}); }), "none");
  EXPECT_EQ(refusal([&] { build({}, raw, {512, 0}); }), "none") << "no answer is requested";
}

TEST_F(PromptBuilder, NamesMissingCapabilities) {
  models.add({.go = kLines});
  const auto model = models.catalog.find("m");
  const auto why = [&](const GenerationRequest& request) {
    return refusal([&] { check_capabilities(*model, request); });
  };
  EXPECT_EQ(why(prompt("x")), "none");
  GenerationRequest request = prompt("x");
  request.think.enabled = true;
  EXPECT_EQ(why(request), "400 \"m\" does not support thinking");
  request.think.enabled = false;
  EXPECT_EQ(why(request), "none");
  request.suffix = "y";
  EXPECT_EQ(why(request), "400 registry.ollama.ai/library/m:latest does not support insert");
  request.suffix.clear();
  request.images = {"png"};
  EXPECT_EQ(why(request), "400 registry.ollama.ai/library/m:latest does not support vision");
  GenerationRequest tools = chat({text_message("user", "q")});
  tools.tools = {tool("f")};
  EXPECT_EQ(why(tools), "400 registry.ollama.ai/library/m:latest does not support tools");
}

std::string picture() { return image::encode_png({{8, 8}, std::vector<uint8_t>(8 * 8 * 3)}); }

// The rule gives 16 rows for each picture.
constexpr context::PictureRule kPictures{.cell = 14, .edge = 56};
constexpr size_t kRows = 16 + context::kPictureMarkers;

TEST_F(PromptBuilder, PlacesImagesBetweenTokens) {
  models.facts.pictures = kPictures;
  for (const bool is_jinja : {false, true}) {
    const Sample sample =
        is_jinja ? Sample{.jinja =
                              "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
                              "assistant:"}
                 : Sample{.go = kLines};
    const GenerationRequest request =
        chat({{.role = "user", .parts = {TextPart{"a"}, ImagePart{picture()}, TextPart{"b"}}}});
    const BuiltPrompt built = build(sample, request);
    EXPECT_EQ(built.text, "user: a[img-0]b\nassistant:");
    EXPECT_EQ(built.text_of_tokens, "user: ab\nassistant:");
    ASSERT_EQ(built.images.size(), 1u);
    const context::PromptImage& place = built.images[0].place;
    EXPECT_EQ(place.text_at, std::string("user: a").size());
    EXPECT_EQ(place.n_rows, kRows);
    const tokenizer::Tokenizer& tokenizer = models.catalog.find("m")->weights->tokenizer;
    const std::vector<int32_t> before(built.tokens.begin(),
                                      built.tokens.begin() + static_cast<std::ptrdiff_t>(place.at));
    EXPECT_EQ(tokenizer.decode(before), "user: a");
    EXPECT_EQ(built.n_positions(), built.tokens.size() + kRows);
    EXPECT_EQ(built.n_full, built.n_positions());
  }
}

TEST_F(PromptBuilder, LlamaServerAddsTheBosOfAPromptWithImages) {
  models.facts.pictures = kPictures;
  models.add({.add_bos = true});
  const auto model = models.catalog.find("m");  // build() replaces it in the store
  const tokenizer::Tokenizer& tokenizer = model->weights->tokenizer;
  GenerationRequest request = prompt(std::string(tokenizer.text(tokenizer.bos())) + "a[img]b");
  request.raw = true;
  request.images = {picture()};
  const BuiltPrompt built = build({.add_bos = true}, request);
  ASSERT_EQ(built.tokens.size(), 3u);
  EXPECT_EQ(built.tokens[0], tokenizer.bos());
  EXPECT_EQ(built.text_of_tokens, "ab");
  EXPECT_EQ(built.images.at(0).place.at, 2u);
  EXPECT_EQ(built.images.at(0).place.text_at, 1u);
}

TEST_F(PromptBuilder, AddsImagesOfTheModelsMessages) {
  models.facts.pictures = kPictures;
  const Sample sample{.go = kLines,
                      .messages = {{"user", "a", "", {picture()}}, {"assistant", "b"}}};
  EXPECT_EQ(build(sample, chat({text_message("user", "c")})).images.size(), 1u);
}

TEST_F(PromptBuilder, DropsMessagesWithTheirImages) {
  models.facts.pictures = kPictures;
  std::vector<Message> messages;
  for (int i = 0; i < 20; ++i) {
    messages.push_back({.role = "user", .parts = {ImagePart{picture()}, TextPart{"q"}}});
    messages.push_back(text_message("assistant", "a"));
  }
  messages.push_back(text_message("user", "last"));
  const BuiltPrompt built = build({.go = kLines}, chat(messages), {400, -1});
  EXPECT_GT(built.n_left_out, 0u);
  EXPECT_LT(built.images.size(), 20u);
  EXPECT_GT(built.images.size(), 0u);
  EXPECT_LE(built.n_positions(), 400u);
  EXPECT_EQ(built.images.back().index, 19u) << "the latest stays";
  EXPECT_GT(built.n_full, 20 * kRows);
  // No image stays: the prompt has only tokens.
  const BuiltPrompt none = build({.go = kLines}, chat(messages), {40, -1});
  EXPECT_TRUE(none.images.empty());
}

TEST_F(PromptBuilder, RefusesImagesWithoutAPlace) {
  models.facts.pictures = kPictures;
  const Sample sample{
      .go = "{{ range .Messages }}{{ if eq .Role \"user\" }}{{ .Content }}{{ end }}{{ end }}"};
  GenerationRequest request =
      chat({text_message("user", "a"), {.role = "tool", .parts = {ImagePart{picture()}}}});
  EXPECT_EQ(refusal([&] { build(sample, request); }),
            "400 the model's template has no place for image 1, which is in a message with role "
            "\"tool\"");
  request.messages[1].parts = {ImagePart{"no picture"}};
  EXPECT_EQ(refusal([&] { build(sample, request); }),
            "400 image 1: the picture format is unknown; use PNG, JPEG, WebP, GIF or BMP");
}

TEST_F(PromptBuilder, DropsEarlierThinkingOfQwen) {
  const Sample sample{.go = kLines, .architecture = "qwen3"};
  EXPECT_EQ(text(sample, chat({text_message("user", "a"),
                               text_message("assistant", "<think>hm</think>\n\nb"),
                               text_message("user", "c")})),
            "user: a\nassistant: b\nuser: c\nassistant:");
}

}  // namespace
}  // namespace billow::api
