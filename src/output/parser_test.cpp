#include "output/parser.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/test_source_dir.h"
#include "output/test_cases.h"

namespace billow::output {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = source_dir();
const fs::path kShared = kSource / "../shared/output-formats.md";

// Returns the name of the format of a family in the cases.
std::string format_name(const std::string& family) {
  static const std::map<std::string, std::string> kNames = {
      {"any", "hermes"},
      {"apriel-1.6", "apriel"},
      {"command-r-plus", "command-r"},
      {"command-r7b", "cohere"},
      {"deepseek-r1", "deepseek"},
      {"deepseek-v3.1", "deepseek"},
      {"deepseek-v3.2", "dsml"},
      {"deepseek-v4", "dsml"},
      {"devstral", "mistral"},
      {"ernie-4.5", "ernie"},
      {"exaone-4", "hermes"},
      {"firefunction", "functools"},
      {"glm-4.6", "glm"},
      {"glm-4.7", "glm"},
      {"gpt-oss", "harmony"},
      {"granite-3.1", "granite"},
      {"granite-3.3", "granite"},
      {"granite-4", "hermes"},
      {"hermes3", "hermes"},
      {"hunyuan-a13b", "hunyuan"},
      {"kimi-k2-thinking", "kimi-k2"},
      {"llama3.1", "llama"},
      {"llama3.1-ipython", "llama"},
      {"llama3.2", "llama"},
      {"llama3.3", "llama"},
      {"magistral", "mistral"},
      {"ministral-3", "mistral"},
      {"ministral-3-reasoning", "mistral"},
      {"mistral-nemo", "mistral"},
      {"mistral-small-3.2", "mistral"},
      {"nemotron-3", "qwen3-coder"},
      {"nemotron-nano-v2", "nemotron"},
      {"north", "cohere"},
      {"olmo3-think", "olmo3"},
      {"phi4-mini", "functools"},
      {"qwen2.5", "hermes"},
      {"qwen3-2507-thinking", "hermes"},
      {"qwq", "hermes"},
      {"seed-oss", "seed"},
      {"smollm3", "hermes"},
  };
  const auto known = kNames.find(family);
  return known == kNames.end() ? family : known->second;
}

Start start_for(const SampleCase& one) {
  if (one.note.starts_with("/continuation")) return {StartState::kContinued, {}};
  if (one.family == "functionary-3.2") return {StartState::kText, ">>>"};
  if (one.family == "apriel-1.6") return {StartState::kThinking, {}};
  const StartState state = one.state == 'O'   ? StartState::kThinking
                           : one.state == 'M' ? StartState::kMayThink
                                              : StartState::kText;
  return {state, {}};
}

// The form of a case's text: with the markers as text, or as control tokens.
struct Shape {
  Format format;
  std::vector<Mark> marks;
};

bool looks_like_token(std::string_view text) {
  const bool is_tag = text.size() > 2 && text.front() == '<' && text.back() == '>';
  const bool is_bracket = text.size() > 2 && text.front() == '[' && text.back() == ']';
  return is_tag || is_bracket;
}

Shape as_tokens(const Format& row, const SampleCase& one) {
  const auto is_control = [&](std::string_view text) {
    const bool is_part = std::ranges::find(row.tokens, text) != row.tokens.end();
    return is_part || looks_like_token(text);
  };
  Shape shape{recognise({.parser = row.name, .is_control = is_control}), {}};
  for (size_t i = 0; i < one.text.size();) {
    size_t n_max = 0;
    for (const std::string& token : control_markers(shape.format))
      if (std::string_view(one.text).substr(i).starts_with(token))
        n_max = std::max(n_max, token.size());
    const bool is_plain = std::ranges::any_of(one.plain, [&](const Mark& plain) {
      return i >= plain.offset && i < plain.offset + plain.length;
    });
    if (n_max > 0 && !is_plain) shape.marks.push_back({i, n_max});
    i += std::max<size_t>(n_max, 1);
  }
  return shape;
}

std::vector<size_t> all_cuts(const std::string& text) {
  std::vector<size_t> cuts;
  for (size_t i = 1; i < text.size(); ++i) cuts.push_back(i);
  return cuts;
}

std::string shown(const std::vector<Event>& events) {
  std::string text;
  for (const Event& event : events)
    text += std::to_string(static_cast<int>(event.kind)) + "#" + std::to_string(event.call) + "[" +
            event.id + "]" + event.text + "\n";
  return text;
}

void expect_case(const SampleCase& one, const Outcome& outcome, const std::string& how) {
  SCOPED_TRACE("case " + one.id + " " + one.family + one.note + ", " + how + ": " + one.text);
  EXPECT_EQ(outcome.thinking, one.thinking);
  EXPECT_EQ(outcome.content, one.content);
  ASSERT_EQ(outcome.calls.size(), one.calls.size()) << shown(outcome.events);
  for (size_t i = 0; i < one.calls.size(); ++i) {
    const SampleCall& call = outcome.calls[i];
    EXPECT_EQ(call.name, one.calls[i].name);
    if (!one.calls[i].id.empty()) {
      EXPECT_EQ(call.id, one.calls[i].id);
    }
    const Json wanted = Json::parse(one.calls[i].arguments);
    const Json found = Json::parse(call.arguments, nullptr, false);
    EXPECT_EQ(found.dump(), wanted.dump()) << call.arguments;
  }
}

void run_case(const SampleCase& one) {
  const Format* row = find_format(format_name(one.family));
  ASSERT_NE(row, nullptr) << one.family;
  const bool has_tools = one.note.find("no tools") == std::string::npos;
  const std::vector<Tool> tools = has_tools ? sample_tools() : std::vector<Tool>();
  const Start start = start_for(one);
  const FinishReason reason = one.remark.find("finish length") == std::string::npos
                                  ? FinishReason::kStop
                                  : FinishReason::kLength;
  std::vector<std::pair<std::string, Shape>> shapes;
  if (one.plain.empty()) shapes.push_back({"text", {*row, {}}});
  shapes.push_back({"tokens", as_tokens(*row, one)});
  for (const auto& [name, shape] : shapes) {
    for (const bool whole : {false, true}) {
      if (one.note.find("OpenAI API") != std::string::npos) continue;
      const Options options{.whole_calls = whole,
                            .parse_calls = one.note.find("tool_choice none") == std::string::npos};
      const auto outcome = [&](const std::vector<size_t>& cuts) {
        return parse_answer(shape.format, start, tools, options, one.text, shape.marks, cuts,
                            reason);
      };
      const Outcome in_one = outcome({});
      expect_case(one, in_one, name + (whole ? ", whole calls" : ""));
      const std::string wanted = shown(in_one.events);
      EXPECT_EQ(shown(outcome(one.cuts).events), wanted) << one.id << " " << name;
      EXPECT_EQ(shown(outcome(all_cuts(one.text)).events), wanted) << one.id << " " << name;
      if (whole || name == "tokens") continue;
      for (size_t cut = 1; cut < one.text.size(); ++cut)
        EXPECT_EQ(shown(outcome({cut}).events), wanted) << one.id << " cut at " << cut;
    }
  }
}

TEST(OutputParser, ParsesTheProjectsCases) {
  const std::vector<SampleCase> cases = read_cases(kSource / "src/output/test_cases.txt");
  EXPECT_GE(cases.size(), 60U);
  for (const SampleCase& one : cases) run_case(one);
}

TEST(OutputParser, ParsesSharedVectors) {
  const std::vector<SampleCase> cases = read_cases(kShared);
  if (cases.empty()) GTEST_SKIP() << "no vectors at " << kShared;
  EXPECT_GE(cases.size(), 127U);
  for (const SampleCase& one : cases) run_case(one);
}

const Format& hermes() { return *find_format("hermes"); }

// Returns the events of an answer that arrives in these pieces.
std::string streamed(const Format& format, const Start& start,
                     const std::vector<std::string>& pieces, const Options& options = {},
                     FinishReason reason = FinishReason::kStop) {
  Parser parser(format, start, sample_tools(), options);
  std::vector<Event> events;
  for (const std::string& piece : pieces) {
    const size_t before = events.size();
    parser.add(piece, {}, events);
    EXPECT_TRUE(events.size() >= before);
  }
  parser.finish(reason, events);
  return shown(events);
}

TEST(OutputParser, StreamsArguments) {
  EXPECT_EQ(streamed(hermes(), {StartState::kText, {}},
                     {"Let me look.", "\n<", "tool", "_call>\n{\"name\": \"wea",
                      "ther\", \"arguments\": {\"city\": \"Ro", "me\"}}\n</tool", "_call>"}),
            "1#0[]Let me look.\n2#0[]weather\n3#0[]{\"city\": \"Ro\n3#0[]me\"}\n4#0[]\n");
  EXPECT_EQ(streamed(*find_format("qwen3-coder"), {StartState::kText, {}},
                     {"<tool_call>\n<function=add>\n<parameter=a>\n2", "\n</parameter>\n",
                      "<parameter=b>\n2.5\n</parameter>\n</function>", "\n</tool_call>"}),
            "2#0[]add\n3#0[]{\"a\": \n3#0[]2, \"b\": 2.5}\n4#0[]\n");
  EXPECT_EQ(streamed(*find_format("qwen3-coder"), {StartState::kText, {}},
                     {"<tool_call>\n<function=run>\n<parameter=cmd>\nline 1\n\n  line 2\n</param",
                      "eter>\n</function>\n</tool_call>"}),
            "2#0[]run\n3#0[]{\"cmd\": \"line 1\\n\\n  line 2\n3#0[]\"}\n4#0[]\n");
}

TEST(OutputParser, HoldsBackAPossibleCallUntilItIsRuledOut) {
  Parser parser(*find_format("llama"), {StartState::kText, {}}, sample_tools(), {});
  std::vector<Event> events;
  parser.add("{\"name\": \"weather\", ", {}, events);
  EXPECT_TRUE(events.empty());
  parser.add("\"age\":", {}, events);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].text, "{\"name\": \"weather\", \"age\":");
}

TEST(OutputParser, CutOffCallsHaveNoEnd) {
  const std::string text = "<tool_call>{\"name\":\"run\",\"arguments\":{\"cmd\":\"ls";
  const std::string wanted = "2#0[]run\n3#0[]{\"cmd\":\"ls\n";
  for (const bool whole : {false, true}) {
    EXPECT_EQ(streamed(hermes(), {StartState::kText, {}}, {text}, {.whole_calls = whole},
                       FinishReason::kLength),
              wanted);
  }
  EXPECT_EQ(streamed(hermes(), {StartState::kText, {}}, {text}), wanted);
  EXPECT_EQ(streamed(hermes(), {StartState::kText, {}}, {text}, {.whole_calls = true}),
            "1#0[]" + text + "\n");
}

// Clients join the parts of calls by their numbers.
TEST(OutputParser, ACallAfterABrokenOneHasItsOwnNumber) {
  const std::string found =
      streamed(*find_format("qwen3-coder"), {StartState::kText, {}},
               {"<tool_call>\n<function=run>\n<parameter=cmd>\nls\n</parameter>\n",
                "<parameter=timeout\n5</parameter></function></tool_call>\n",
                "<tool_call>\n<function=add>\n<parameter=a>\n2\n</parameter>\n</function>\n",
                "</tool_call>"});
  EXPECT_TRUE(found.starts_with("2#0[]run\n")) << found;
  EXPECT_NE(found.find("2#1[]add\n3#1[]{\"a\": "), std::string::npos) << found;
  EXPECT_TRUE(found.ends_with("4#1[]\n")) << found;
}

TEST(OutputParser, ReportsABodyThatIsNotJsonUnchangedOrAsText) {
  const std::string text =
      "<|channel|>commentary to=functions.run <|constrain|>json<|message|>{\"cmd\": ls}<|call|>";
  const Format& harmony = *find_format("harmony");
  EXPECT_EQ(streamed(harmony, {StartState::kText, {}}, {text}),
            "2#0[]run\n3#0[]{\"cmd\": ls}\n4#0[]\n");
  EXPECT_EQ(streamed(harmony, {StartState::kText, {}}, {text}, {.whole_calls = true}),
            "1#0[]{\"cmd\": ls}\n");
  EXPECT_EQ(streamed(hermes(), {StartState::kText, {}},
                     {"<tool_call>{\"name\":\"run\",\"arguments\":{\"cmd\": ls}}</tool_call>x"}),
            "2#0[]run\n3#0[]{\"cmd\": ls}\n4#0[]\n1#0[]x\n");
}

TEST(OutputParser, ContinuesACallOrMessageOfThePrompt) {
  EXPECT_EQ(streamed(hermes(), {StartState::kContinued, "<tool_call>\n{\"name\": \"ru"},
                     {"n\", \"arguments\": {}}\n</tool_call>"}),
            "2#0[]run\n3#0[]{}\n4#0[]\n");
  EXPECT_EQ(streamed(hermes(), {StartState::kContinued, "<tool_call>"}, {" is a tag"}),
            "1#0[] is a tag\n");
  EXPECT_EQ(streamed(*find_format("harmony"),
                     {StartState::kText, "<|start|>assistant<|channel|>final<|message|>Hel"},
                     {"lo<|return|>"}),
            "1#0[]lo\n");
}

TEST(OutputParser, ContinuesThePromptWhereMarkersAreControlTokens) {
  const auto is_control = [](std::string_view text) {
    return text.starts_with("<|") || text == "<tool_call>" || text == "</tool_call>";
  };
  const Format qwen = recognise({.parser = "qwen3", .is_control = is_control});
  ASSERT_FALSE(qwen.control.empty());
  EXPECT_EQ(streamed(qwen, {StartState::kContinued, "<tool_call>\n{\"name\": \"ru"},
                     {"n\", \"arguments\": {}}\n"}),
            "2#0[]run\n3#0[]{}\n4#0[]\n");
  const Format harmony = recognise({.parser = "harmony", .is_control = is_control});
  ASSERT_FALSE(harmony.control.empty());
  EXPECT_EQ(
      streamed(harmony, {StartState::kText, "<|start|>assistant<|channel|>analysis<|message|>The"},
               {" user"}),
      "0#0[] user\n");
}

TEST(OutputParser, ThinkingBecomesTextIfItIsOffAndNothingElseIsWritten) {
  const Options off{.thinks = false};
  EXPECT_EQ(streamed(hermes(), {StartState::kMayThink, {}}, {"<think>a</think>b"}, off),
            "1#0[]b\n");
  EXPECT_EQ(streamed(hermes(), {StartState::kMayThink, {}}, {"<think>a"}, off), "1#0[]a\n");
}

TEST(OutputParser, EventsHaveWholeCharacters) {
  Parser parser(hermes(), {StartState::kText, {}}, {}, {});
  std::vector<Event> events;
  parser.add("caf\xC3", {}, events);
  parser.add("\xA9 \xF0\x9F\x98", {}, events);
  parser.add("\x80", {}, events);
  parser.finish(FinishReason::kStop, events);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].text, "caf");
  EXPECT_EQ(events[1].text, "é ");
  EXPECT_EQ(events[2].text, "😀");
}

TEST(OutputParser, MapsHarmonyNamesBackToToolNames) {
  Parser parser(*find_format("harmony"), {StartState::kText, {}},
                {{"get-time", {}}, {"get.time", {}}}, {});
  std::vector<Event> events;
  parser.add("<|channel|>commentary to=functions.get_time_2<|message|>{}<|call|>", {}, events);
  parser.finish(FinishReason::kStop, events);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].text, "get.time");
}

// Returns pieces for hostile and odd answers: markers, JSON, words.
std::vector<std::string> alphabet_of(const Format& format) {
  std::vector<std::string> pieces = {"{",
                                     "}",
                                     "[",
                                     "]",
                                     "\"",
                                     "\\",
                                     ":",
                                     ",",
                                     " ",
                                     "\n",
                                     "ping",
                                     "run",
                                     "<",
                                     ">",
                                     "</",
                                     "|",
                                     "(",
                                     ")",
                                     "=",
                                     "'",
                                     "null",
                                     "1",
                                     "-",
                                     "é",
                                     "```json",
                                     "```",
                                     "{}",
                                     "\"a\": 1",
                                     "{\"name\": \"ping\", \"arguments\": {}}",
                                     "{\"name\": \"run\", \"parameters\": {\"cmd\": \"x\"}}",
                                     "ping()",
                                     "run(cmd=\"ls\")",
                                     "call:run{cmd:",
                                     "ping\n",
                                     "name=\"run\"",
                                     "cmd>",
                                     "<function=run>",
                                     "<parameter=cmd>",
                                     "all\n",
                                     ">>>",
                                     "to=functions.run",
                                     "analysis",
                                     "final"};
  const auto is_any = [](std::string_view) { return true; };
  const Format full = recognise({.parser = format.name, .is_control = is_any});
  for (const std::string& marker : full.control) {
    pieces.push_back(marker);
    pieces.push_back(marker.substr(0, marker.size() / 2));
  }
  return pieces;
}

TEST(OutputParser, EventsDoNotDependOnCuts) {
  std::mt19937 random(7);
  const auto any = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  for (const Format& row : all_formats()) {
    const std::vector<std::string> alphabet = alphabet_of(row);
    for (int round = 0; round < 60; ++round) {
      std::string text;
      for (size_t n = any(24) + 1; n > 0; --n) text += alphabet[any(alphabet.size())];
      const Start start{static_cast<StartState>(any(4)), {}};
      const Options options{.whole_calls = any(2) == 0, .thinks = any(4) != 0};
      const FinishReason reason = any(2) == 0 ? FinishReason::kStop : FinishReason::kLength;
      std::vector<size_t> cuts;
      for (size_t n = any(6); n > 0; --n) cuts.push_back(any(text.size() + 1));
      std::ranges::sort(cuts);
      const auto events = [&](const std::vector<size_t>& at) {
        return shown(
            parse_answer(row, start, sample_tools(), options, text, {}, at, reason).events);
      };
      const std::string wanted = events({});
      ASSERT_EQ(events(cuts), wanted) << row.name << ": " << text;
      ASSERT_EQ(events(all_cuts(text)), wanted) << row.name << ": " << text;
    }
  }
}

// Words between markers and calls are reported once each, in order, for any markers.
TEST(OutputParser, LosesNoText) {
  std::mt19937 random(11);
  const auto any = [&](size_t n) {
    return std::uniform_int_distribution<size_t>(0, n - 1)(random);
  };
  const std::vector<std::string> others = {
      "<tool_call>",
      "</tool_call>",
      "<think>",
      "</think>",
      "\n",
      " ",
      "<tool_",
      "{",
      "[",
      "\"name\"",
      "<tool_call>{\"name\": \"ping\", \"arguments\": {}}</tool_call>"};
  for (const char* name : {"hermes", "qwen3-coder", "glm", "ernie"}) {
    for (int round = 0; round < 300; ++round) {
      std::string text;
      std::string words;
      for (size_t n = 0; n < 20; ++n) {
        text += others[any(others.size())];
        const std::string word = "w" + std::to_string(n) + ".";
        text += word;
        words += word;
      }
      const Start start{static_cast<StartState>(any(4)), {}};
      const Options options{.whole_calls = any(2) == 0};
      const Outcome outcome = parse_answer(*find_format(name), start, sample_tools(), options, text,
                                           {}, {}, FinishReason::kStop);
      std::string found;
      for (const Event& event : outcome.events)
        for (size_t at = event.text.find('w'); at != std::string::npos;
             at = event.text.find('w', at + 1))
          found += event.text.substr(at, event.text.find('.', at) + 1 - at);
      ASSERT_EQ(found, words) << name << ": " << text;
    }
  }
}

TEST(OutputParser, ParsesHostileAnswersInLinearTime) {
  constexpr size_t kBytes = size_t{1} << 14;
  const std::vector<std::string> parts = {"{",
                                          "[",
                                          "[{",
                                          "<tool_call>",
                                          "<tool_call>{\"name\":\"run\",\"arguments\":{\"cmd\":\"",
                                          "<tool_call>{\"a\":[",
                                          "{\"name\":\"run\",\"arguments\":[",
                                          "<tool_call>run<arg_key>cmd</arg_key><arg_value>",
                                          "<function=run><parameter=cmd>",
                                          "</parameter>   \n ",
                                          " ",
                                          "<think>",
                                          "[ping(",
                                          "<|channel|>",
                                          "<|message|>",
                                          "`"};
  for (const char* name : {"hermes", "qwen3-coder", "glm", "llama", "xlam", "harmony", "gemma4"}) {
    for (const StartState state : {StartState::kThinking, StartState::kText}) {
      for (const std::string& part : parts) {
        std::string text;
        while (text.size() < kBytes) text += part;
        const Outcome outcome = parse_answer(*find_format(name), {state, {}}, sample_tools(), {},
                                             text, {}, {}, FinishReason::kStop);
        EXPECT_LE(outcome.content.size(), text.size());
      }
    }
  }
}

}  // namespace
}  // namespace billow::output
