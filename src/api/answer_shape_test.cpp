#include "api/answer_shape.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "http/status.h"
#include "output/harmony.h"
#include "output/parser.h"

namespace billow::api {
namespace {

using constraint::GrammarKind;
using output::StartState;

Tool tool(const char* name, const char* parameters, bool strict = false) {
  return {.name = name,
          .declaration = {{"type", "function"},
                          {"function", {{"name", name}, {"parameters", Json::parse(parameters)}}}},
          .strict = strict};
}

output::Format thinking_format() {
  output::Format format;
  format.thinking = {.open = {"<think>"}, .close = {"</think>"}};
  format.calls = {output::JsonCalls{.open = {"<tool_call>"}, .close = {"</tool_call>"}}};
  return format;
}

GenerationRequest request_with(std::optional<constraint::Grammar> grammar) {
  GenerationRequest request{.kind = GenerationKind::kChat, .model = "m"};
  request.grammar = std::move(grammar);
  return request;
}

Json schema_of(const AnswerShape& shape) { return Json::parse(shape.constraint->grammar.text); }

TEST(AnswerShape, HasNoConstraintByDefault) {
  const AnswerShape shape = shape_of(request_with({}), thinking_format(), {StartState::kText});
  EXPECT_FALSE(shape.constraint.has_value());
  EXPECT_EQ(std::get<output::JsonCalls>(shape.format.calls.at(0)).open.size(), 1u);
}

TEST(AnswerShape, GrammarStartsAfterThinking) {
  const GenerationRequest request = request_with(constraint::Grammar{});
  const auto of = [&](StartState state) {
    return *shape_of(request, thinking_format(), {state}).constraint;
  };
  EXPECT_EQ(of(StartState::kText).starts_after, "");
  EXPECT_EQ(of(StartState::kThinking).starts_after, "</think>");
  EXPECT_EQ(of(StartState::kThinking).opens_with, "");
  EXPECT_EQ(of(StartState::kMayThink).starts_after, "</think>");
  EXPECT_EQ(of(StartState::kMayThink).opens_with, "<think>");
  output::Format harmony;
  harmony.calls = {output::HarmonyCalls{}};
  EXPECT_EQ(of(StartState::kContinued).starts_after, "") << "the model continues its text";
  const auto of_harmony = [&](const char* prefix) {
    return *shape_of(request, harmony, {StartState::kText, prefix}).constraint;
  };
  EXPECT_EQ(of_harmony("<|start|>assistant").starts_after, "<|channel|>final");
  EXPECT_EQ(of_harmony("<|start|>assistant").forced_next, "<|message|>");
  EXPECT_EQ(of_harmony("<|start|>assistant<|channel|>final<|message|>{").starts_after, "");
  GenerationRequest calling = request_with({});
  calling.tools = {tool("get.weather", "{}"), tool("get-weather", "{}")};
  calling.tool_choice = {.use = ToolUse::kRequired, .name = "get-weather"};
  const constraint::Constraint call =
      *shape_of(calling, harmony, {StartState::kMayThink}).constraint;
  EXPECT_EQ(call.starts_after, "<|channel|>commentary");
  EXPECT_EQ(call.forced_next, " to=functions.get_weather_2 <|constrain|>json<|message|>")
      << "by the name that the prompt declares";
}

TEST(AnswerShape, RequiredCallsAreAJsonArray) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", R"({"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}})"),
                   tool("g", "{}")};
  request.tool_choice.use = ToolUse::kRequired;
  const AnswerShape shape = shape_of(request, thinking_format(), {StartState::kText});
  const Json schema = schema_of(shape);
  EXPECT_EQ(schema["minItems"], 1);
  EXPECT_FALSE(schema.contains("maxItems"));
  const Json& forms = schema["items"]["anyOf"];
  ASSERT_EQ(forms.size(), 2u);
  EXPECT_EQ(forms[0]["properties"]["name"]["const"], "f");
  EXPECT_EQ(forms[0]["properties"]["arguments"]["properties"]["a"]["$ref"],
            "#/items/anyOf/0/properties/arguments/$defs/x");
  EXPECT_EQ(forms[1]["properties"]["arguments"], Json::parse(R"({"type":"object"})"));
  request.tool_choice.name = "g";
  const Json named = schema_of(shape_of(request, thinking_format(), {StartState::kText}));
  EXPECT_EQ(named["items"]["anyOf"].size(), 1u);
  EXPECT_EQ(named["maxItems"], 1);
}

TEST(AnswerShape, MovesTheReferencesOfASchema) {
  GenerationRequest request = request_with({});
  request.tool_choice.use = ToolUse::kRequired;
  // Names of properties and definitions may be keywords of JSON Schema. Data is no reference.
  request.tools = {tool("f", R"({"properties":{"default":{"$ref":"#/$defs/enum"},
                                               "examples":{"items":{"$ref":"#/$defs/enum"}}},
                                 "default":{"$ref":"#/a"},
                                 "$defs":{"enum":{"const":1}}})")};
  const Json moved = schema_of(shape_of(request, thinking_format(), {StartState::kText}));
  const Json& arguments = moved["items"]["anyOf"][0]["properties"]["arguments"];
  const std::string to = "#/items/anyOf/0/properties/arguments/$defs/enum";
  EXPECT_EQ(arguments["properties"]["default"]["$ref"], to);
  EXPECT_EQ(arguments["properties"]["examples"]["items"]["$ref"], to);
  EXPECT_EQ(arguments["default"]["$ref"], "#/a");
}

// The parts of required calls reach the client while they are generated.
TEST(AnswerShape, RequiredCallsStream) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", "{}"), tool("g", "{}")};
  request.tool_choice.use = ToolUse::kRequired;
  const AnswerShape shape = shape_of(request, thinking_format(), {StartState::kMayThink});
  output::Parser parser(shape.format, {StartState::kMayThink}, {{.name = "f"}, {.name = "g"}});
  const auto streamed = [&](std::string_view text) {
    std::string all;
    std::vector<output::Event> events;
    parser.add(text, {}, events);
    for (const output::Event& event : events) {
      if (event.kind == output::EventKind::kThinking) all += "thinks ";
      if (event.kind == output::EventKind::kCallBegin) all += "begins ";
      all += event.text;
      if (event.kind == output::EventKind::kCallEnd) all += " ends";
    }
    return all;
  };
  EXPECT_EQ(streamed("<think>[{"), "thinks [{");
  EXPECT_EQ(streamed("</think>[ {\"name\": \"f\", \"arguments\": {\"a\":"), "begins f{\"a\":");
  EXPECT_EQ(streamed(" [1, \"lo"), " [1, \"lo");
  EXPECT_EQ(streamed("ng\"]}}, {\"name\": \"g\", \"arguments\": {"), "ng\"]} endsbegins g{");
  EXPECT_EQ(streamed("}}\n]"), "} ends");
  std::vector<output::Event> rest;
  parser.finish(output::FinishReason::kStop, rest);
  EXPECT_TRUE(rest.empty());
}

// The grammar begins a new answer, whatever text or call the prompt has begun.
TEST(AnswerShape, JsonAfterABegunMessageIsReadFromItsBeginning) {
  GenerationRequest required = request_with({});
  required.tools = {tool("f", "{}")};
  required.tool_choice.use = ToolUse::kRequired;
  GenerationRequest either = request_with(constraint::Grammar{});
  either.tools = required.tools;
  for (const GenerationRequest& request : {required, either}) {
    for (const output::Start& begun :
         {output::Start{StartState::kContinued, {}},
          output::Start{StartState::kContinued, "<tool_call>[{\"name\": \"f\", \"arg"},
          output::Start{StartState::kText, "[{\"name\": \"f\", \"arguments\": {\"a\": \"x"}}) {
      const AnswerShape shape = shape_of(request, thinking_format(), begun);
      ASSERT_EQ(shape.constraint->starts_after, "");
      output::Parser parser(shape.format, shape.start, {{.name = "f"}});
      std::vector<output::Event> events;
      parser.add(R"([{"name": "f", "arguments": {"b": 1}}])", {}, events);
      parser.finish(output::FinishReason::kStop, events);
      std::string arguments;
      for (const output::Event& event : events) {
        EXPECT_NE(event.kind, output::EventKind::kText) << event.text;
        if (event.kind == output::EventKind::kCallArguments) arguments += event.text;
      }
      EXPECT_EQ(arguments, R"({"b": 1})") << begun.prefix;
    }
  }
  const AnswerShape thinks = shape_of(required, thinking_format(), {StartState::kThinking});
  EXPECT_EQ(thinks.start.state, StartState::kThinking);
}

TEST(AnswerShape, CutOffRequiredCallIsNotText) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", "{}")};
  request.tool_choice.use = ToolUse::kRequired;
  const AnswerShape shape = shape_of(request, thinking_format(), {StartState::kText});
  for (const bool whole_calls : {false, true}) {
    output::Parser parser(shape.format, {StartState::kText}, {{.name = "f"}},
                          {.whole_calls = whole_calls});
    std::vector<output::Event> events;
    parser.add(R"([{"name": "f", "arguments": {"a": [1)", {}, events);
    parser.finish(output::FinishReason::kLength, events);
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.front().kind, output::EventKind::kCallBegin);
    for (const output::Event& event : events)
      EXPECT_NE(event.kind, output::EventKind::kText) << whole_calls << event.text;
  }
}

// A required answer is only calls. A call that is cut off before its name is shown nowhere.
TEST(AnswerShape, RequiredCallCutOffBeforeItsNameIsNotText) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", "{}")};
  request.tool_choice.use = ToolUse::kRequired;
  const AnswerShape shape = shape_of(request, thinking_format(), {StartState::kText});
  const std::string text = "[\n  {\"name\": \"f\", \"arguments\": {}}, {\"name\": \"f\", \"arg";
  for (const bool whole_calls : {false, true}) {
    for (size_t n = 1; n <= text.size(); ++n) {
      output::Parser parser(shape.format, {StartState::kText}, {{.name = "f"}},
                            {.whole_calls = whole_calls});
      std::vector<output::Event> events;
      for (size_t i = 0; i < n; ++i) parser.add(text.substr(i, 1), {}, events);
      parser.finish(output::FinishReason::kLength, events);
      for (const output::Event& event : events)
        EXPECT_NE(event.kind, output::EventKind::kText) << text.substr(0, n) << ": " << event.text;
    }
  }
}

TEST(AnswerShape, GrammarWithToolsAllowsBoth) {
  GenerationRequest request = request_with(constraint::Grammar{
      GrammarKind::kJsonSchema, R"({"$ref":"#/$defs/x","$defs":{"x":{"const":"#/y"}}})"});
  request.tools = {tool("f", "{}")};
  const Json schema = schema_of(shape_of(request, thinking_format(), {StartState::kText}));
  EXPECT_EQ(schema["anyOf"][0]["$ref"], "#/anyOf/0/$defs/x");
  EXPECT_EQ(schema["anyOf"][0]["$defs"]["x"]["const"], "#/y") << "a value is not a reference";
  EXPECT_EQ(schema["anyOf"][1]["type"], "array");
  request.tool_choice.use = ToolUse::kNone;
  EXPECT_FALSE(
      schema_of(shape_of(request, thinking_format(), {StartState::kText})).contains("anyOf"));
  request.tool_choice.use = ToolUse::kAuto;
  request.grammar = {GrammarKind::kRegex, "a+"};
  EXPECT_EQ(shape_of(request, thinking_format(), {StartState::kText}).constraint->grammar.kind,
            GrammarKind::kRegex);
}

TEST(AnswerShape, GrammarWithToolsKeepsTheMessagesOfHarmony) {
  GenerationRequest request = request_with(constraint::Grammar{GrammarKind::kJsonObject, ""});
  request.tools = {tool("f", "{}")};
  output::Format harmony;
  harmony.calls = {output::HarmonyCalls{}};
  const AnswerShape shape = shape_of(request, harmony, {StartState::kText, "<|start|>assistant"});
  EXPECT_TRUE(output::is_harmony(shape.format));
  EXPECT_EQ(shape.constraint->grammar.kind, GrammarKind::kJsonObject);
  EXPECT_EQ(shape.constraint->starts_after, "<|channel|>final");
  EXPECT_TRUE(shape.constraint->may_not_start) << "a call ends the answer";
  const AnswerShape begun = shape_of(
      request, harmony, {StartState::kText, "<|start|>assistant<|channel|>final<|message|>{"});
  EXPECT_FALSE(begun.constraint->may_not_start);
}

TEST(AnswerShape, StrictCallsMatchTheSchemaAfterTheMarker) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", R"({"type":"object"})", true)};
  const AnswerShape shape = shape_of(request, thinking_format(), {StartState::kText});
  EXPECT_EQ(shape.constraint->starts_after, "<tool_call>");
  EXPECT_TRUE(shape.constraint->may_not_start);
  EXPECT_EQ(schema_of(shape)["anyOf"][0]["properties"]["name"]["const"], "f");
  EXPECT_FALSE(shape.ignores_strict);
}

TEST(AnswerShape, StrictCallsMayFollowOneAnother) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", R"({"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{}}})", true),
                   tool("g", "{}")};
  const AnswerShape several = shape_of(request, thinking_format(), {StartState::kText});
  EXPECT_EQ(several.constraint->repeats_after, "</tool_call>");
  const Json forms = schema_of(several)["anyOf"];
  ASSERT_EQ(forms.size(), 3u);
  EXPECT_EQ(forms[2].dump(), R"({"type":"array","minItems":1,)"
                             R"("items":{"anyOf":[{"$ref":"#/anyOf/0"},{"$ref":"#/anyOf/1"}]}})");
  output::Format open_ended;
  open_ended.calls = {output::JsonCalls{.open = {"[TOOL_CALLS]"}}};
  const AnswerShape array = shape_of(request, open_ended, {StartState::kText});
  EXPECT_EQ(array.constraint->repeats_after, "") << "nothing ends the calls";
  EXPECT_EQ(schema_of(array)["anyOf"].size(), 3u);
  request.tool_choice.parallel = false;
  const AnswerShape one = shape_of(request, thinking_format(), {StartState::kText});
  EXPECT_EQ(one.constraint->repeats_after, "");
  EXPECT_EQ(schema_of(one)["anyOf"].size(), 2u);
}

TEST(AnswerShape, SchemasOfToolsThatAreNotStrictMayBeUnsupported) {
  constexpr const char* kUnsupported = R"({"type":"object","properties":{"a":{"type":"x"}}})";
  GenerationRequest request = request_with({});
  request.tools = {tool("f", R"({"type":"object","minProperties":1})", true),
                   tool("g", kUnsupported)};
  const Json forms = schema_of(shape_of(request, thinking_format(), {StartState::kText}))["anyOf"];
  EXPECT_EQ(forms[0]["properties"]["arguments"]["minProperties"], 1);
  EXPECT_EQ(forms[1]["properties"]["arguments"], (Json{{"type", "object"}}));
  request.tools[1].strict = true;
  EXPECT_THROW(shape_of(request, thinking_format(), {StartState::kText}), http::StatusError);
}

TEST(AnswerShape, ReportsStrictToolsThatItCannotEnforce) {
  GenerationRequest request = request_with({});
  request.tools = {tool("f", R"({"type":"object"})", true)};
  output::Format bare;
  bare.calls = {output::JsonCalls{}};
  const AnswerShape ignored = shape_of(request, bare, {StartState::kText});
  EXPECT_FALSE(ignored.constraint.has_value());
  EXPECT_TRUE(ignored.ignores_strict);
  request.tool_choice.use = ToolUse::kNone;
  EXPECT_FALSE(shape_of(request, bare, {StartState::kText}).ignores_strict);
  request.tool_choice.use = ToolUse::kRequired;
  EXPECT_FALSE(shape_of(request, bare, {StartState::kText}).ignores_strict);
}

TEST(AnswerShape, UnsupportedGrammarIsNamed) {
  try {
    shape_of(request_with(constraint::Grammar{GrammarKind::kJsonSchema, R"({"type":"x"})"}),
             thinking_format(), {StartState::kText});
    ADD_FAILURE() << "nothing was refused";
  } catch (const http::StatusError& error) {
    EXPECT_EQ(error.status(), 400);
    EXPECT_NE(std::string(error.what()).find("type"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace billow::api
