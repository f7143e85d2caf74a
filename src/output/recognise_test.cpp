#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/test_source_dir.h"
#include "output/format.h"
#include "output/harmony.h"
#include "output/test_cases.h"
#include "prompt/chat_template.h"

namespace billow::output {
namespace {

namespace fs = std::filesystem;

const fs::path kTemplates = fs::path(source_dir()) / "../shared/data/templates";

struct KnownTemplate {
  const char* file;
  const char* format;
  bool thinks;
  bool round_trips;  // the parser can read the calls that the template renders
};

const std::vector<KnownTemplate> kKnown = {
    {"Apertus-8B-Instruct", "apertus", true, true},
    {"Apriel-1.6-15b-Thinker-fixed", "apriel", true, true},
    {"Bielik-11B-v3.0-Instruct", "hermes", true, true},
    {"ByteDance-Seed-OSS", "seed", true, true},
    {"CohereForAI-c4ai-command-r-plus-tool_use", "command-r", false, true},
    {"CohereForAI-c4ai-command-r7b-12-2024-tool_use", "cohere", true, true},
    {"GLM-4.7-Flash", "glm", true, true},
    {"GLM-5.2", "glm", true, true},
    {"GigaChat3-10B-A1.8B", "gigachat", false, true},
    {"GigaChat3.1-10B-A1.8B", "gigachat", false, true},
    {"HuggingFaceTB-SmolLM3-3B", "generic", true, false},
    {"Kimi-K2-Instruct", "kimi-k2", false, true},
    {"LFM2-8B-A1B", "lfm2", false, false},
    {"MiMo-VL", "hermes", false, true},
    {"MiroThinker", "hermes", true, false},
    {"Mistral-Small-3.2-24B-Instruct-2506", "mistral", false, true},
    {"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "hermes", false, true},
    {"NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "hermes", false, true},
    {"Qwen-QwQ-32B", "hermes", true, true},
    {"Qwen-Qwen2.5-7B-Instruct", "hermes", false, true},
    {"Qwen-Qwen3-0.6B", "hermes", true, true},
    {"Qwen3-Coder", "qwen3-coder", false, true},
    {"Reka-Edge", "hermes", true, true},
    {"StepFun3.5-Flash", "qwen3-coder", true, true},
    {"deepseek-ai-DeepSeek-R1-Distill-Llama-8B", "deepseek", true, true},
    {"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek", true, true},
    {"deepseek-ai-DeepSeek-V3.2", "dsml", true, true},
    {"deepseek-ai-DeepSeek-V4", "dsml", true, true},
    {"fireworks-ai-llama-3-firefunction-v2", "functools", false, true},
    {"google-gemma-2-2b-it", "generic", false, false},
    {"google-gemma-4-31B-it-interleaved", "gemma4", true, true},
    {"llama-cpp-deepseek-r1", "deepseek", true, true},
    {"llama-cpp-rwkv-world", "generic", true, false},
    {"meetkai-functionary-medium-v3.1", "functionary-3.1", false, true},
    {"meta-llama-Llama-3.1-8B-Instruct", "llama", false, true},
    {"meta-llama-Llama-3.2-3B-Instruct", "llama", false, true},
    {"meta-llama-Llama-3.3-70B-Instruct", "llama", false, true},
    {"microsoft-Phi-3.5-mini-instruct", "generic", false, false},
    {"mistralai-Ministral-3-14B-Reasoning-2512", "mistral", true, true},
    {"moonshotai-Kimi-K2", "kimi-k2", false, true},
    {"stepfun-ai-Step-3.5-Flash", "qwen3-coder", true, true},
    {"unsloth-Apriel-1.5", "apriel", true, true},
    {"unsloth-mistral-Devstral-Small-2507", "mistral", false, true},
};

std::string text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(OutputFormats, AreRecognisedByTheirTemplates) {
  if (!fs::exists(kTemplates)) GTEST_SKIP() << "no templates at " << kTemplates;
  size_t n_files = 0;
  for (const auto& entry : fs::directory_iterator(kTemplates))
    n_files += entry.path().extension() == ".jinja" ? 1U : 0U;
  EXPECT_EQ(n_files, kKnown.size());
  for (const KnownTemplate& known : kKnown) {
    const std::string source = text_of(kTemplates / (std::string(known.file) + ".jinja"));
    const Format format = recognise({.jinja = source});
    EXPECT_EQ(format.name, known.format) << known.file;
    EXPECT_EQ(!format.thinking.close.empty(), known.thinks) << known.file;
  }
}

// The form of an answer with a call in the input of a template. Templates need different forms.
struct Wording {
  bool arguments_are_text;
  bool content_is_null;
};
constexpr Wording kWordings[] = {{false, false}, {true, false}, {false, true}, {true, true}};

const Json& called_with() {
  static const Json kArguments = {{"city", "Rome \"x\""}, {"days", 2}};
  return kArguments;
}

Json conversation(bool with_answer, const Wording& wording) {
  const Json& arguments = called_with();
  const Json given = wording.arguments_are_text ? Json(arguments.dump()) : arguments;
  const Json call = {{"id", "aB3456789"},
                     {"type", "function"},
                     {"function", {{"name", "weather"}, {"arguments", given}}}};
  Json messages = Json::array({{{"role", "user"}, {"content", "How is it in Rome?"}}});
  if (with_answer) {
    messages.push_back({{"role", "assistant"},
                        {"content", wording.content_is_null ? Json() : Json("")},
                        {"tool_calls", Json::array({call})}});
  }
  const Json tools = Json::parse(R"([{"type": "function", "function": {
      "name": "weather", "description": "Tells the weather.", "parameters": {
        "type": "object", "required": ["city"], "properties": {
          "city": {"type": "string", "description": "Where."},
          "days": {"type": "integer", "description": "How many."}}}}}])");
  return {{"messages", messages},
          {"tools", tools},
          {"bos_token", "<s>"},
          {"eos_token", "</s>"},
          {"functions", tools.dump()},
          {"datetime", "2026-01-01"},
          {"strftime_now", "2026-01-01T12:00:00"},
          {"add_generation_prompt", !with_answer}};
}

// Returns the call as the template renders it: the text after the prompt, from the last '>' or line
// end that both texts share. Returns "" if the template raises an error.
std::string rendered_call(const std::string& source, const Wording& wording) {
  try {
    const prompt::ChatTemplate chat(source);
    const std::string before = chat.render(conversation(false, wording));
    const std::string after = chat.render(conversation(true, wording));
    auto n_same = static_cast<size_t>(std::ranges::mismatch(before, after).in2 - after.begin());
    while (n_same > 0 && after[n_same - 1] != '>' && after[n_same - 1] != '\n') --n_same;
    std::string text = after.substr(n_same);
    for (const char* stop :
         {"<|im_end|>", "</s>", "<|eot_id|>", "<|eom_id|>", "<|END_OF_TURN_TOKEN|>",
          "<｜end▁of▁sentence｜>", "<turn|>", "<|end|>", "<seed:eos>", "<sep>"}) {
      const size_t at = text.find(stop);
      if (at != text.npos) text.resize(at);
    }
    return text;
  } catch (const Error&) {
    return "";
  }
}

TEST(OutputFormats, ParseTheCallsThatTheirTemplatesRender) {
  if (!fs::exists(kTemplates)) GTEST_SKIP() << "no templates at " << kTemplates;
  const std::vector<Tool> tools = sample_tools();
  for (const KnownTemplate& known : kKnown) {
    if (!known.round_trips) continue;
    const std::string source = text_of(kTemplates / (std::string(known.file) + ".jinja"));
    const Format format = recognise({.jinja = source});
    std::string seen;
    bool is_read = false;
    for (const Wording& wording : kWordings) {
      const std::string text = rendered_call(source, wording);
      const Outcome outcome =
          parse_answer(format, {StartState::kText, {}}, tools, {.whole_calls = true}, text, {}, {},
                       FinishReason::kStop);
      seen += "[" + text + "]";
      if (outcome.calls.size() != 1 || outcome.calls[0].name != "weather") continue;
      const Json arguments = Json::parse(outcome.calls[0].arguments);
      is_read = is_read || arguments == called_with();
    }
    EXPECT_TRUE(is_read) << known.file << ": " << seen;
  }
}

TEST(OutputFormats, AreFoundByParserNames) {
  EXPECT_EQ(find_format("qwen3.5")->name, "qwen3-coder");
  EXPECT_EQ(find_format("passthrough")->name, "plain");
  EXPECT_EQ(find_format("nosuch"), nullptr);
  EXPECT_TRUE(is_parser("glm-4.7"));
  EXPECT_FALSE(is_parser("hermes"));
  EXPECT_TRUE(is_renderer("qwen3.8"));
  EXPECT_FALSE(is_renderer("qwen3"));
}

// Some families have markers of several spellings. A model writes that of its template.
TEST(OutputFormats, PutTheSpellingOfTheTemplateFirst) {
  const std::string text = "{{ '<think:opensource>' }}{{ content.split('</think:opensource>') }}";
  const Format format = recognise({.parser = "hunyuan-v3", .jinja = text});
  EXPECT_EQ(format.name, "hunyuan-v3");
  EXPECT_EQ(format.thinking.open.front(), "<think:opensource>");
  EXPECT_EQ(format.thinking.close.front(), "</think:opensource>");
  EXPECT_EQ(format.thinking.close.size(), 2u);
  EXPECT_EQ(recognise({.parser = "hunyuan-v3", .jinja = "<think>"}).thinking.open.front(),
            "<think>");
}

TEST(OutputFormats, AreMadeFromUnknownGoTemplates) {
  const prompt::GoTemplate tagged(
      "{{ range .Messages }}{{ if .Thinking }}<th>{{ .Thinking }}</th>{{ end }}{{ .Content }}"
      "{{ if .ToolCalls }}<call>{{ range .ToolCalls }}{\"name\": \"{{ .Function.Name }}\"}"
      "{{ end }}{{ end }}{{ end }}");
  const Format format = recognise({.go = &tagged});
  EXPECT_EQ(format.name, "generic");
  const Outcome outcome =
      parse_answer(format, {StartState::kMayThink, {}}, sample_tools(), {},
                   "<th>a</th>b\n<call>{\"tool\": \"run\", \"parameters\": {\"cmd\": \"ls\"}}", {},
                   {}, FinishReason::kStop);
  EXPECT_EQ(outcome.thinking, "a");
  EXPECT_EQ(outcome.content, "b");
  ASSERT_EQ(outcome.calls.size(), 1U);
  EXPECT_EQ(outcome.calls[0].name, "run");
  EXPECT_EQ(outcome.calls[0].arguments, "{\"cmd\":\"ls\"}");

  const prompt::GoTemplate plain("{{ range .Messages }}{{ .Content }}{{ end }}");
  EXPECT_TRUE(recognise({.go = &plain}).calls.empty());
}

TEST(OutputFormats, ListTheControlTokensOfTheVocabulary) {
  const auto has = [](std::string_view text) {
    return text == "<tool_call>" || text == "｜DSML｜" || text == "<other>";
  };
  const Format format = recognise({.parser = "qwen3", .is_control = has});
  EXPECT_EQ(format.control, Texts{"<tool_call>"});
  EXPECT_EQ(recognise({.parser = "dsml", .is_control = has}).control, Texts{"｜DSML｜"});
}

TEST(OutputStart, IsReadFromThePrompt) {
  const Format& hermes = *find_format("hermes");
  EXPECT_EQ(start_of(hermes, "<|im_start|>assistant\n<think>\n").state, StartState::kThinking);
  EXPECT_EQ(start_of(hermes, "assistant\n<think>\n\n</think>\n\n").state, StartState::kText);
  EXPECT_EQ(start_of(hermes, "<think>a</think>b<|im_start|>assistant\n").state,
            StartState::kMayThink);
  EXPECT_EQ(start_of(*find_format("command-r"), "x").state, StartState::kText);
  EXPECT_EQ(start_of(*find_format("apriel"), "x").state, StartState::kThinking);
  const Format& gemma = *find_format("gemma4");
  EXPECT_EQ(start_of(gemma, "x<tool_response|>").state, StartState::kThinking);
  EXPECT_EQ(start_of(gemma, "x<tool_response|>", {.thinks = false}).state, StartState::kMayThink);
  EXPECT_EQ(start_of(gemma, "<|channel>thought\n<channel|>").state, StartState::kText);
}

TEST(OutputStart, ContinuesTheLastMessage) {
  const Format& hermes = *find_format("hermes");
  const std::string call = "<tool_call>\n{\"name\": \"ru";
  const Start open = start_of(hermes, "assistant\nOk." + call, {.text = "Ok." + call});
  EXPECT_EQ(open.state, StartState::kContinued);
  EXPECT_EQ(open.prefix, call);
  const std::string closed = "<tool_call>\n{}\n</tool_call>\nSo";
  EXPECT_EQ(start_of(hermes, closed, {.text = closed}).prefix, "");
  // The hint decides: the words of the thinking can occur later by chance.
  EXPECT_EQ(start_of(hermes, "<think>a", {.continues_thinking = true}).state,
            StartState::kThinking);
  EXPECT_EQ(start_of(hermes, "<think>hi</think>\n<|im_end|>\n<|im_start|>assistant\n").state,
            StartState::kMayThink);
  EXPECT_EQ(start_of(*find_format("command-r"), "a", {.continues_thinking = true}).state,
            StartState::kText)
      << "a model that does not think";
  EXPECT_EQ(start_of(hermes, "<think>a", {.text = "<think>a"}).state, StartState::kThinking);
  const Start bare = start_of(*find_format("llama"), "x{\"name\"", {.text = "{\"name\""});
  EXPECT_EQ(bare.prefix, "{\"name\"");
  const Start harmony =
      start_of(*find_format("harmony"), "<|start|>user<|message|>a<|end|><|start|>assistant");
  EXPECT_EQ(harmony.prefix, "<|start|>assistant");
  // Only the end of the prompt is searched for the header of a message that continues.
  const std::string text(100'000, 'x');
  const Start continued =
      start_of(*find_format("harmony"), "<|start|>assistant<|channel|>final<|message|>" + text,
               {.text = text});
  EXPECT_EQ(continued.prefix, "<|start|>assistant<|channel|>final<|message|>");
  const Start thinking =
      start_of(*find_format("harmony"), "<|start|>assistant<|channel|>analysis<|message|>" + text,
               {.continues_thinking = true});
  EXPECT_EQ(thinking.prefix, "<|start|>assistant<|channel|>analysis<|message|>");
  EXPECT_EQ(start_of(*find_format("functionary-3.2"), "x>>>").prefix, ">>>");
}

TEST(OutputHarmony, TurnsToolNamesIntoIdentifiers) {
  const std::vector<std::string> names = {"get time", "get-time",       "1st", "über",
                                          "python",   "browser.search", "!"};
  EXPECT_EQ(harmony_names(names),
            (std::vector<std::string>{"get_time", "get_time_2", "_1st", "ber", "python",
                                      "browser.search", "unnamed"}));
}

}  // namespace
}  // namespace billow::output
