// The table of families. Each family is a row; most rows share their forms with other rows.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "output/format.h"

namespace billow::output {
namespace {

const Thinking kThinkTags = {.open = {"<think>"}, .close = {"</think>"}};

const JsonCalls kHermes = {.open = {"<tool_call>"}, .close = {"</tool_call>"}};
const JsonCalls kToolCalls = {.open = {"<tool_calls>"}, .close = {"</tool_calls>"}};
const JsonCalls kBareJson = {};
const PythonCalls kBarePython = {};
const Texts kLlamaEnds = {"<|eom_id|>", "<|eot_id|>"};
const JsonCalls kLlamaTaggedJson = {.open = {"<|python_tag|>"}, .close = kLlamaEnds};
const PythonCalls kLlamaTaggedPython = {
    .open = {"<|python_tag|>"}, .close = kLlamaEnds, .in_list = false, .is_method = true};
const PythonCalls kLlama4 = {.open = {"<|python_start|>"}, .close = {"<|python_end|>"}};

const TaggedCalls kQwenCoder = {.section_open = {"<tool_call>"},
                                .section_close = {"</tool_call>"},
                                .open = {"<function="},
                                .close = {"</function>"},
                                .key_open = {"<parameter="},
                                .key_close = {"</parameter>"},
                                .values = ValueRule::kLines};

const NamedCalls kDeepSeek = {.section_open = {"<｜tool▁calls▁begin｜>", "<｜tool_calls_begin｜>",
                                               "<｜tool calls begin｜>", "<｜tool▁calls｜>"},
                              .section_close = {"<｜tool▁calls▁end｜>"},
                              .open = {"<｜tool▁call▁begin｜>"},
                              .prefix = {"function<｜tool▁sep｜>"},
                              .name_end = {"\n", "<｜tool▁sep｜>"},
                              .close = {"<｜tool▁call▁end｜>"}};

const TaggedCalls kDsml = {.section_open = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
                           .section_close = {"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"},
                           .open = {"<｜DSML｜invoke"},
                           .close = {"</｜DSML｜invoke>"},
                           .key_open = {"<｜DSML｜parameter"},
                           .key_close = {"</｜DSML｜parameter>"}};

const PairCalls kGlm = {.open = {"<tool_call>"},
                        .close = {"</tool_call>"},
                        .key_open = {"<arg_key>"},
                        .key_close = {"</arg_key>"},
                        .value_open = {"<arg_value>"},
                        .value_close = {"</arg_value>"}};

const PairCalls kHunyuan3 = {.section_open = {"<tool_calls>", "<tool_calls:opensource>"},
                             .section_close = {"</tool_calls>", "</tool_calls:opensource>"},
                             .open = {"<tool_call>", "<tool_call:opensource>"},
                             .close = {"</tool_call>", "</tool_call:opensource>"},
                             .name_end = {"<tool_sep>", "<tool_sep:opensource>"},
                             .key_open = {"<arg_key>", "<arg_key:opensource>"},
                             .key_close = {"</arg_key>", "</arg_key:opensource>"},
                             .value_open = {"<arg_value>", "<arg_value:opensource>"},
                             .value_close = {"</arg_value>", "</arg_value:opensource>"}};

const PairCalls kLongCat = {.open = {"<longcat_tool_call>"},
                            .close = {"</longcat_tool_call>"},
                            .key_open = {"<longcat_arg_key>"},
                            .key_close = {"</longcat_arg_key>"},
                            .value_open = {"<longcat_arg_value>"},
                            .value_close = {"</longcat_arg_value>"}};

const TaggedCalls kKimi3 = {.section_open = {"<|open|>tools<|sep|>"},
                            .section_close = {"<|close|>tools<|sep|>"},
                            .open = {"<|open|>call"},
                            .close = {"<|close|>call<|sep|>"},
                            .key_open = {"<|open|>argument"},
                            .key_close = {"<|close|>argument<|sep|>"},
                            .tag_end = "<|sep|>"};

const NamedCalls kKimi2 = {
    .section_open = {"<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"},
    .section_close = {"<|tool_calls_section_end|>", "<|tool_call_section_end|>"},
    .open = {"<|tool_call_begin|>"},
    .name_end = {"<|tool_call_argument_begin|>"},
    .close = {"<|tool_call_end|>"},
    .name_is_id = true};

// NOLINTNEXTLINE(readability-function-size): a table
const std::vector<Format>& rows() {
  static const std::vector<Format> kRows = {
      {.name = "plain"},
      {.name = "think", .thinking = kThinkTags},
      {.name = "hermes", .thinking = kThinkTags, .calls = {kHermes}},
      {.name = "ernie",
       .thinking = kThinkTags,
       .calls = {kHermes},
       .text = {.open = {"<response>"}, .close = {"</response>"}}},
      {.name = "qwen3-coder", .thinking = kThinkTags, .calls = {kQwenCoder, kHermes}},
      {.name = "deepseek", .thinking = kThinkTags, .calls = {kDeepSeek}},
      {.name = "dsml", .thinking = kThinkTags, .calls = {kDsml}, .tokens = {"｜DSML｜"}},
      {.name = "llama",
       .thinking = kThinkTags,
       .calls = {kBareJson, kBarePython, kLlamaTaggedJson, kLlamaTaggedPython, kLlama4},
       .text = {.hidden = kLlamaEnds}},
      {.name = "mistral",
       .thinking = {.open = {"[THINK]", "<think>"},
                    .close = {"[/THINK]", "</think>"},
                    .quotes_calls = true},
       .calls = {JsonCalls{.open = {"[TOOL_CALLS]"}, .id_last = true},
                 NamedCalls{
                     .open = {"[TOOL_CALLS]"}, .id_open = {"[CALL_ID]"}, .name_end = {"[ARGS]"}}}},
      {.name = "harmony",
       .calls = {HarmonyCalls{}},
       .tokens = {"<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|call|>",
                  "<|return|>"}},
      {.name = "glm", .thinking = kThinkTags, .calls = {kGlm}},
      {.name = "hunyuan-v3",
       .thinking = {.open = {"<think>", "<think:opensource>"},
                    .close = {"</think>", "</think:opensource>"}},
       .calls = {kHunyuan3}},
      {.name = "longcat",
       .thinking = {.open = {"<longcat_think>", "<think>"},
                    .close = {"</longcat_think>", "</think>"}},
       .calls = {kLongCat}},
      {.name = "kimi-k2", .thinking = kThinkTags, .calls = {kKimi2}},
      {.name = "kimi-k3",
       .thinking = {.open = {"<|open|>think<|sep|>"}, .close = {"<|close|>think<|sep|>"}},
       .calls = {kKimi3},
       .text = {.open = {"<|open|>response<|sep|>"},
                .close = {"<|close|>response<|sep|>"},
                .hidden = {"<|end_of_msg|>"}},
       .tokens = {"<|open|>", "<|close|>", "<|sep|>"}},
      {.name = "minimax-m2",
       .thinking = kThinkTags,
       .calls = {TaggedCalls{.section_open = {"<minimax:tool_call>"},
                             .section_close = {"</minimax:tool_call>"},
                             .open = {"<invoke"},
                             .close = {"</invoke>"},
                             .key_open = {"<parameter"},
                             .key_close = {"</parameter>"},
                             .values = ValueRule::kTrimmed}}},
      {.name = "minimax-m3",
       .thinking = {.open = {"<mm:think>"}, .close = {"</mm:think>"}},
       .calls = {TaggedCalls{
           .section_open = {"]<]minimax[>[<tool_call>", "]<]minimax[>[<minimax:tool_call>"},
           .section_close = {"]<]minimax[>[</tool_call>", "]<]minimax[>[</minimax:tool_call>"},
           .open = {"]<]minimax[>[<invoke"},
           .close = {"]<]minimax[>[</invoke>"},
           .key_open = {"]<]minimax[>[<"},
           .key_close = {"]<]minimax[>[</"},
           .key_is_tag = true}},
       .tokens = {"]<]minimax[>["}},
      {.name = "cohere",
       .thinking = {.open = {"<|START_THINKING|>"}, .close = {"<|END_THINKING|>"}},
       .calls = {JsonCalls{.open = {"<|START_ACTION|>"}, .close = {"<|END_ACTION|>"}}},
       .text = {.open = {"<|START_RESPONSE|>", "<|START_TEXT|>"},
                .close = {"<|END_RESPONSE|>", "<|END_TEXT|>"},
                .has_citations = true}},
      {.name = "command-r",
       .calls = {JsonCalls{.open = {"Action:"}, .ignored = {"directly-answer", "directly_answer"}}},
       .text = {.has_citations = true}},
      {.name = "gemma4",
       .thinking = {.open = {"<|channel>thought"},
                    .close = {"<channel|>"},
                    .repeats = true,
                    .resumes = true},
       .calls = {GemmaCalls{.open = {"<|tool_call>"},
                            .close = {"<tool_call|>"},
                            .quote = "<|\"|>",
                            .ends = {"<|tool_response>"}}},
       .text = {.hidden = {"<channel|>"}},
       .tokens = {"<|channel>"}},
      {.name = "functiongemma",
       .calls = {GemmaCalls{.open = {"<start_function_call>"},
                            .close = {"<end_function_call>"},
                            .quote = "<escape>",
                            .ends = {"<start_function_response>"}}}},
      {.name = "lfm2",
       .thinking = kThinkTags,
       .calls = {PythonCalls{.open = {"<|tool_call_start|>"},
                             .close = {"<|tool_call_end|>"},
                             .echoes = true},
                 JsonCalls{.open = {"<|tool_call_start|>"}, .close = {"<|tool_call_end|>"}},
                 kBarePython}},
      {.name = "olmo3",
       .thinking = kThinkTags,
       .calls = {PythonCalls{
           .open = {"<function_calls>"}, .close = {"</function_calls>"}, .in_list = false}}},
      {.name = "functools",
       .calls = {JsonCalls{.open = {"functools", "<|tool_call|>"}, .close = {"<|/tool_call|>"}}}},
      {.name = "granite",
       .thinking = kThinkTags,
       .calls = {JsonCalls{.open = {"<|tool_call|>", "<tool_call>"}, .close = {"</tool_call>"}}},
       .text = {.open = {"<response>"}, .close = {"</response>"}}},
      {.name = "granite-code",
       .calls = {JsonCalls{.open = {"<function_call>"}, .close = {"</function_call>"}}}},
      {.name = "functionary-3.1",
       .calls = {NamedCalls{.open = {"<function="}, .name_end = {">"}, .close = {"</function>"}},
                 kLlamaTaggedJson},
       .text = {.hidden = kLlamaEnds}},
      {.name = "functionary-3.2",
       .calls = {NamedCalls{.open = {">>>"},
                            .name_end = {"\n"},
                            .text_name = "all",
                            .code_name = "python"}},
       .text = {.hidden = kLlamaEnds}},
      {.name = "apertus",
       .thinking = {.open = {"<|inner_prefix|>"}, .close = {"<|inner_suffix|>"}, .repeats = true},
       .calls = {JsonCalls{
           .open = {"<|tools_prefix|>"}, .close = {"<|tools_suffix|>"}, .keyed = true}}},
      {.name = "nemotron",
       .thinking = kThinkTags,
       .calls = {JsonCalls{.open = {"<TOOLCALL>"}, .close = {"</TOOLCALL>"}}}},
      {.name = "seed",
       .thinking = {.open = {"<seed:think>"},
                    .close = {"</seed:think>"},
                    .hidden = {"<seed:cot_budget_reflect>", "</seed:cot_budget_reflect>"}},
       .calls = {TaggedCalls{.section_open = {"<seed:tool_call>"},
                             .section_close = {"</seed:tool_call>"},
                             .open = {"<function="},
                             .close = {"</function>"},
                             .key_open = {"<parameter="},
                             .key_close = {"</parameter>"}}}},
      {.name = "hunyuan",
       .thinking = {.open = {"<think>"}, .close = {"</think>"}, .quotes_calls = true},
       .calls = {kToolCalls},
       .text = {.open = {"<answer>"}, .close = {"</answer>"}}},
      {.name = "tool-calls", .thinking = kThinkTags, .calls = {kToolCalls}},
      {.name = "apriel",
       .thinking = {.close = {"[BEGIN FINAL RESPONSE]"}, .begins_open = true},
       .calls = {kToolCalls},
       .text = {.hidden = {"[END FINAL RESPONSE]", "<|end|>"}}},
      {.name = "gigachat",
       .thinking = kThinkTags,
       .calls = {JsonCalls{
           .open = {"<|message_sep|>\n\nfunction call<|role_sep|>", "<|function_call|>"}}},
       .text = {.hidden = {"<|message_sep|>"}},
       .tokens = {"<|role_sep|>"}},
      {.name = "internlm",
       .calls = {JsonCalls{.open = {"<|action_start|><|plugin|>"}, .close = {"<|action_end|>"}}},
       .tokens = {"<|action_start|>", "<|plugin|>"}},
      {.name = "minicpm",
       .thinking = kThinkTags,
       .calls = {TaggedCalls{.open = {"<function"},
                             .close = {"</function>"},
                             .key_open = {"<param"},
                             .key_close = {"</param>"},
                             .has_cdata = true}}},
      {.name = "glimmer",
       .thinking = kThinkTags,
       .calls = {TaggedCalls{.section_open = {"<atem:function_calls>"},
                             .section_close = {"</atem:function_calls>"},
                             .open = {"<atem:invoke"},
                             .close = {"</atem:invoke>"},
                             .key_open = {"<atem:parameter"},
                             .key_close = {"</atem:parameter>"}}}},
      {.name = "xlam",
       .thinking = kThinkTags,
       .calls = {JsonCalls{.fenced = true},
                 JsonCalls{.open = {"<tool_call>", "[TOOL_CALLS]"}, .close = {"</tool_call>"}}}},
      {.name = "bare-json", .thinking = kThinkTags, .calls = {kBareJson}},
  };
  return kRows;
}

// Names of PARSER lines, and the rows that they select.
struct Parser {
  std::string_view name;
  std::string_view format;
};
constexpr auto kParsers = std::to_array<Parser>({{"cogito", "deepseek"},
                                                 {"cohere", "cohere"},
                                                 {"deepseek3", "deepseek"},
                                                 {"functiongemma", "functiongemma"},
                                                 {"gemma4", "gemma4"},
                                                 {"gemma4-no-thinking", "gemma4"},
                                                 {"glimmer", "glimmer"},
                                                 {"glm-4.7", "glm"},
                                                 {"glm-ocr", "glm"},
                                                 {"harmony", "harmony"},
                                                 {"laguna", "glm"},
                                                 {"lfm2", "lfm2"},
                                                 {"lfm2-thinking", "lfm2"},
                                                 {"ministral", "mistral"},
                                                 {"nemotron-3-nano", "qwen3-coder"},
                                                 {"nemotron-3.5-nano", "qwen3-coder"},
                                                 {"olmo3", "olmo3"},
                                                 {"olmo3-think", "olmo3"},
                                                 {"ornith", "qwen3-coder"},
                                                 {"passthrough", "plain"},
                                                 {"poolside-v1", "glm"},
                                                 {"qwen3", "hermes"},
                                                 {"qwen3-coder", "qwen3-coder"},
                                                 {"qwen3-thinking", "hermes"},
                                                 {"qwen3-vl-instruct", "hermes"},
                                                 {"qwen3-vl-thinking", "hermes"},
                                                 {"qwen3.5", "qwen3-coder"}});

constexpr auto kRenderers = std::to_array<std::string_view>({"cogito",
                                                             "cohere",
                                                             "deepseek3.1",
                                                             "functiongemma",
                                                             "gemma4",
                                                             "gemma4-large",
                                                             "gemma4-small",
                                                             "glimmer",
                                                             "glm-4.7",
                                                             "glm-ocr",
                                                             "laguna",
                                                             "lfm2",
                                                             "lfm2-thinking",
                                                             "nemotron-3-nano",
                                                             "nemotron-3.5-nano",
                                                             "olmo3",
                                                             "olmo3-32b-think",
                                                             "olmo3-think",
                                                             "olmo3.1",
                                                             "ornith",
                                                             "poolside-v1",
                                                             "qwen3-coder",
                                                             "qwen3-vl-instruct",
                                                             "qwen3-vl-thinking",
                                                             "qwen3.5",
                                                             "qwen3.8"});

}  // namespace

std::span<const Format> all_formats() { return rows(); }

const Format* find_format(std::string_view name) {
  for (const Parser& parser : kParsers)
    if (parser.name == name) name = parser.format;
  for (const Format& row : rows())
    if (row.name == name) return &row;
  return nullptr;
}

bool is_parser(std::string_view name) {
  return std::ranges::any_of(kParsers, [&](const Parser& parser) { return parser.name == name; });
}

bool is_renderer(std::string_view name) {
  return std::find(kRenderers.begin(), kRenderers.end(), name) != kRenderers.end();
}

}  // namespace billow::output
