// Finds the format of a model from the texts in its template and its vocabulary.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/text.h"
#include "output/format.h"
#include "prompt/go_markers.h"

namespace billow::output {
namespace {

using Marks = std::vector<std::string_view>;

// A template has this format if it contains all texts of `all` and no text of `none`. The first
// matching row decides, so special rows come before general rows.
struct Clue {
  Marks all;
  Marks none;
  std::string_view format;
};

const std::vector<Clue>& clues() {
  static const std::vector<Clue> kClues = {
      {{"<|channel|>"}, {}, "harmony"},
      {{"[TOOL_CALLS]"}, {}, "mistral"},
      {{">>>all", ">>>${recipient}"}, {}, "functionary-3.2"},
      {{"code_interpreter", "<function="}, {"<parameter="}, "functionary-3.1"},
      {{"<|tool_call_begin|>", "<|tool_calls_section_begin|>"}, {}, "kimi-k2"},
      {{"<|open|>", "<|sep|>", "<|end_of_msg|>"}, {}, "kimi-k3"},
      {{"<|START_ACTION|>"}, {}, "cohere"},
      {{"<|CHATBOT_TOKEN|>", "Action:"}, {}, "command-r"},
      {{"]<]minimax[>[", "<invoke name="}, {}, "minimax-m3"},
      {{"<minimax:tool_call>"}, {}, "minimax-m2"},
      {{"DSML", "function_calls"}, {}, "dsml"},
      {{"DSML", "tool_calls"}, {}, "dsml"},
      {{"<｜tool▁call▁begin｜>"}, {}, "deepseek"},
      {{"<|tool_call>call:"}, {}, "gemma4"},
      {{"<start_function_call>"}, {}, "functiongemma"},
      {{"<|tool_list_start|>"}, {}, "lfm2"},
      {{"List of tools: ["}, {}, "lfm2"},
      {{"<|tool_call_start|>"}, {}, "lfm2"},
      {{"<atem:invoke"}, {}, "glimmer"},
      {{"<longcat_tool_call>"}, {}, "longcat"},
      {{"<function_calls>"}, {}, "olmo3"},
      {{"<|tools_prefix|>"}, {}, "apertus"},
      {{"<TOOLCALL>"}, {}, "nemotron"},
      {{"<seed:tool_call>"}, {}, "seed"},
      {{"functools["}, {}, "functools"},
      {{"<tool_sep", "<arg_key"}, {}, "hunyuan-v3"},
      {{"<arg_key>"}, {}, "glm"},
      {{"<function=", "<parameter="}, {}, "qwen3-coder"},
      {{"<function name=\"", "<param name=\""}, {}, "minicpm"},
      {{"[BEGIN FINAL RESPONSE]"}, {}, "apriel"},
      {{"<tool_calls>", "<answer>"}, {}, "hunyuan"},
      {{"<tool_calls>"}, {}, "tool-calls"},
      {{"<|tool_call|>"}, {}, "granite"},
      {{"<function_call>"}, {}, "granite-code"},
      {{"<|role_sep|>", "<|message_sep|>"}, {}, "gigachat"},
      {{"<|action_start|>", "<|plugin|>"}, {}, "internlm"},
      {{"<|python_start|>"}, {}, "llama"},
      {{"<|python_tag|>"}, {}, "llama"},
      {{"\"parameters\": dictionary", "Do not use variables"}, {}, "llama"},
      {{"<tool_call>", "<response>"}, {}, "ernie"},
      {{"<tool_call>"}, {}, "hermes"},
      {{"Write your thoughts between <think></think>"}, {}, "granite"},
  };
  return kClues;
}

// Formats of architectures whose files may have no template.
struct ArchitectureFormat {
  std::string_view architecture;
  std::string_view format;
};
constexpr auto kArchitectures = std::to_array<ArchitectureFormat>({{"gpt-oss", "harmony"},
                                                                   {"gptoss", "harmony"},
                                                                   {"gemma4", "gemma4"},
                                                                   {"lfm2", "lfm2"},
                                                                   {"lfm2moe", "lfm2"},
                                                                   {"seed_oss", "seed"}});

bool holds(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

const Format* format_of_template(std::string_view source) {
  for (const Clue& clue : clues()) {
    const auto is_there = [&](std::string_view mark) { return holds(source, mark); };
    if (std::ranges::all_of(clue.all, is_there) && std::ranges::none_of(clue.none, is_there))
      return find_format(clue.format);
  }
  return nullptr;
}

// Finds the markers of thinking in templates of unknown formats.
Thinking thinking_of_template(std::string_view source) {
  for (const Format& format : all_formats()) {
    const Thinking& thinking = format.thinking;
    if (thinking.open.empty()) continue;
    if (holds(source, thinking.open.front()) || holds(source, thinking.close.front()))
      return thinking;
  }
  constexpr std::array<std::array<std::string_view, 2>, 2> kOthers = {
      {{"◁think▷", "◁/think▷"}, {"<|think|>", "<|end|>"}}};
  for (const auto& [open, close] : kOthers)
    if (holds(source, open)) return {.open = {std::string(open)}, .close = {std::string(close)}};
  return {};
}

bool declares_tools(const Evidence& evidence) {
  return evidence.go ? evidence.go->mentions("ToolCalls") || evidence.go->mentions("Tools")
                     : holds(evidence.jinja, "tools") || holds(evidence.jinja, "tool_call");
}

// Makes a format from the template alone.
Format generic(const Evidence& evidence) {
  Format format{.name = "generic"};
  if (evidence.go) {
    if (const auto tags = prompt::infer_thinking_tags(*evidence.go))
      format.thinking = {.open = {tags->open}, .close = {tags->close}};
    const std::string tag = prompt::infer_tool_tag(*evidence.go);
    const bool is_bare = tag == "{" || tag == "[";
    if (declares_tools(evidence))
      format.calls = {is_bare ? JsonCalls{} : JsonCalls{.open = {tag}, .loose = true}};
    return format;
  }
  format.thinking = thinking_of_template(evidence.jinja);
  if (declares_tools(evidence)) format.calls = {JsonCalls{}};
  return format;
}

void collect(const Texts& texts, Texts& all) { all.insert(all.end(), texts.begin(), texts.end()); }

struct CollectMarkers {
  Texts& all;
  void operator()(const JsonCalls& form) const { add({form.open, form.close}); }
  void operator()(const NamedCalls& form) const {
    add({form.section_open, form.section_close, form.open, form.prefix, form.id_open, form.name_end,
         form.close});
  }
  void operator()(const TaggedCalls& form) const {
    add({form.section_open, form.section_close, form.open, form.close, form.key_open,
         form.key_close});
  }
  void operator()(const PairCalls& form) const {
    add({form.section_open, form.section_close, form.open, form.close, form.name_end, form.key_open,
         form.key_close, form.value_open, form.value_close});
  }
  void operator()(const PythonCalls& form) const { add({form.open, form.close}); }
  void operator()(const GemmaCalls& form) const {
    add({form.open, form.close, form.ends, {form.quote}});
  }
  void operator()(const HarmonyCalls&) const {}
  void add(std::initializer_list<Texts> groups) const {
    for (const Texts& group : groups) collect(group, all);
  }
};

// Returns every text of the format that can be a control token or contain one.
Texts markers_of(const Format& format) {
  Texts all = format.tokens;
  for (const Texts* texts : {&format.thinking.open, &format.thinking.close, &format.thinking.hidden,
                             &format.text.open, &format.text.close, &format.text.hidden})
    collect(*texts, all);
  for (const CallForm& form : format.calls) std::visit(CollectMarkers{all}, form);
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

// Returns the row for this model, or nullptr.
const Format* row_for(const Evidence& evidence, std::string_view source) {
  if (const Format* named = find_format(evidence.parser)) return named;
  if (const Format* found = format_of_template(source)) return found;
  if (!source.empty()) return nullptr;
  for (const ArchitectureFormat& row : kArchitectures)
    if (row.architecture == evidence.architecture) return find_format(row.format);
  return nullptr;
}

// Puts the spelling that the template uses first: it is the one that the model writes.
void put_first_in(Thinking& thinking, std::string_view source) {
  for (Texts* spellings : {&thinking.open, &thinking.close}) {
    const auto used = std::ranges::find_if(
        *spellings, [&](const std::string& spelling) { return holds(source, spelling); });
    if (used != spellings->end()) std::rotate(spellings->begin(), used, used + 1);
  }
}

}  // namespace

Format recognise(const Evidence& evidence) {
  const std::string_view source =
      evidence.go ? std::string_view(evidence.go->source()) : evidence.jinja;
  const Format* row = row_for(evidence, source);
  Format format = row ? *row : generic(evidence);
  // Many families have some models that think and some that do not.
  const auto is_known = [&](const std::string& marker) {
    return holds(source, marker) || (evidence.is_control && evidence.is_control(marker));
  };
  const bool is_named = row && find_format(evidence.parser) == row;
  const Thinking& thinking = format.thinking;
  if (!is_named && !std::ranges::any_of(thinking.open, is_known) &&
      !std::ranges::any_of(thinking.close, is_known))
    format.thinking = {};
  put_first_in(format.thinking, source);
  if (!evidence.is_control) return format;
  for (const std::string& marker : markers_of(format))
    if (evidence.is_control(marker)) format.control.push_back(marker);
  return format;
}

std::span<const std::string> control_markers(const Format& format) { return format.control; }

}  // namespace billow::output
