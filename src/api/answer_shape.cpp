#include "api/answer_shape.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "http/status.h"
#include "output/harmony.h"

namespace billow::api {
namespace {

using constraint::Constraint;
using constraint::Grammar;
using constraint::GrammarKind;

constexpr const char* kFinal = "<|channel|>final";

// Makes the grammar apply to the text of the answer, after the thinking.
void put_after_thinking(Constraint& made, const output::Format& format,
                        const output::Start& start) {
  if (output::is_harmony(format)) {
    // A prompt may end within the message of the answer. Models name the type of their JSON in the
    // head of the message, or do not: the rest of the head is forced.
    if (start.prefix.find(kFinal) != std::string::npos) return;
    made.starts_after = kFinal;
    made.forced_next = "<|message|>";
    return;
  }
  const output::Thinking& thinking = format.thinking;
  const bool is_text =
      start.state == output::StartState::kText || start.state == output::StartState::kContinued;
  if (is_text || thinking.close.empty()) return;
  made.starts_after = thinking.close.front();
  if (start.state == output::StartState::kMayThink && !thinking.begins_open &&
      !thinking.open.empty())
    made.opens_with = thinking.open.front();
}

// Moves a schema to another place of a document: prefixes its references to the root.
Json moved_to(Json schema, const std::string& place) {
  if (schema.is_array()) {
    for (Json& element : schema) element = moved_to(std::move(element), place);
    return schema;
  }
  if (!schema.is_object()) return schema;
  // Their members have names of the user's choice, and each value is a schema.
  constexpr std::array<std::string_view, 5> kNamed = {"properties", "patternProperties", "$defs",
                                                      "definitions", "dependentSchemas"};
  constexpr std::array<std::string_view, 4> kData = {"const", "enum", "default", "examples"};
  const auto has = [](const auto& keys, std::string_view key) {
    return std::ranges::find(keys, key) != keys.end();
  };
  for (auto& [key, value] : schema.items()) {
    if (key == "$ref" && value.is_string() &&
        value.get_ref<const std::string&>().starts_with('#')) {
      value = "#" + place + value.get<std::string>().substr(1);
    } else if (has(kNamed, key) && value.is_object()) {
      for (Json& named : value) named = moved_to(std::move(named), place);
    } else if (!has(kData, key)) {
      value = moved_to(std::move(value), place);
    }
  }
  return schema;
}

// Returns a schema at `place` for a call of one of the tools.
Json call_schema(const std::vector<Tool>& tools, const std::string& only,
                 const std::string& place) {
  Json forms = Json::array();
  for (const Tool& tool : tools) {
    if (!only.empty() && tool.name != only) continue;
    const std::string here =
        place + "/anyOf/" + std::to_string(forms.size()) + "/properties/arguments";
    const Json* parameters = tool.parameters();
    Json arguments = parameters != nullptr && !parameters->empty() ? moved_to(*parameters, here)
                                                                   : Json{{"type", "object"}};
    if (!arguments.contains("type")) arguments["type"] = "object";
    forms.push_back({{"type", "object"},
                     {"properties", {{"name", {{"const", tool.name}}}, {"arguments", arguments}}},
                     {"required", {"name", "arguments"}},
                     {"additionalProperties", false}});
  }
  return {{"anyOf", std::move(forms)}};
}

Json calls_schema(const GenerationRequest& request, const std::string& place) {
  const ToolChoice& choice = request.tool_choice;
  Json schema = {{"type", "array"},
                 {"minItems", 1},
                 {"items", call_schema(request.tools, choice.name, place + "/items")}};
  if (!choice.parallel || !choice.name.empty()) schema["maxItems"] = 1;
  return schema;
}

Grammar grammar_of_schema(const Json& schema) {
  return {.kind = GrammarKind::kJsonSchema, .text = schema.dump()};
}

// If the grammar holds from the first token, it begins a new text: a text or call that the prompt
// has begun is not continued.
void begin_again(AnswerShape& shape) {
  if (shape.constraint->starts_after.empty()) shape.start = {output::StartState::kText, {}};
}

// The answer is JSON. An array of calls becomes calls; anything else becomes text.
void read_calls_as_json(AnswerShape& shape) {
  shape.format.calls = {output::JsonCalls{}};
  begin_again(shape);
}

// The answer is only an array of calls. Its opening bracket starts the calls, so that their parts
// are streamed. In thinking, a bracket is only text.
void read_calls_in_array(AnswerShape& shape) {
  shape.format.calls = {output::JsonCalls{.open = {"["}, .close = {"]"}, .alone = true}};
  shape.format.thinking.quotes_calls = true;
  begin_again(shape);
}

// Returns the schema of the requested JSON; nothing for other kinds of grammars.
std::optional<Json> json_schema_of(const Grammar& grammar) {
  if (grammar.kind == GrammarKind::kJsonObject) return Json{{"type", "object"}};
  if (grammar.kind != GrammarKind::kJsonSchema) return std::nullopt;
  Json schema = Json::parse(grammar.text, nullptr, false);
  return schema.is_object() ? std::optional(std::move(schema)) : std::nullopt;
}

// Returns the form of the model's calls if they are JSON with a name, after a marker; otherwise
// null.
const output::JsonCalls* marked_json(const output::Format& format) {
  if (format.calls.empty()) return nullptr;
  const auto* calls = std::get_if<output::JsonCalls>(&format.calls.front());
  return calls != nullptr && !calls->keyed && !calls->open.empty() ? calls : nullptr;
}

bool is_supported(const Json& schema) {
  try {
    constraint::check({.grammar = grammar_of_schema(schema)});
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Replaces the schemas that grammars do not support, of tools that are not strict, by any object.
std::vector<Tool> without_unsupported_schemas(std::vector<Tool> tools) {
  for (Tool& tool : tools) {
    const Json* parameters = tool.parameters();
    if (tool.strict || parameters == nullptr || is_supported(*parameters)) continue;
    tool.declaration["function"]["parameters"] = {{"type", "object"}};
  }
  return tools;
}

// Makes the calls after the model's marker match the schemas of all tools. A marker may have one
// call, or an array of them if several are allowed.
void hold_to_schemas(AnswerShape& shape, const GenerationRequest& request) {
  const output::JsonCalls* calls = marked_json(shape.format);
  shape.ignores_strict = calls == nullptr;
  if (calls == nullptr) return;
  Json schema = call_schema(without_unsupported_schemas(request.tools), "", "");
  Constraint made = {.grammar = {}, .starts_after = calls->open.front(), .may_not_start = true};
  if (request.tool_choice.parallel) {
    Json& forms = schema["anyOf"];
    Json any = Json::array();
    for (size_t i = 0; i < forms.size(); ++i)
      any.push_back({{"$ref", "#/anyOf/" + std::to_string(i)}});
    Json items = {{"anyOf", std::move(any)}};
    forms.push_back({{"type", "array"}, {"minItems", 1}, {"items", std::move(items)}});
    if (!calls->close.empty()) made.repeats_after = calls->close.front();
  }
  made.grammar = grammar_of_schema(schema);
  shape.constraint = std::move(made);
}

// For a model that writes messages with recipients: the message head names the function, and its
// body must match the schema. The free text before it has a max length.
Constraint required_message(const GenerationRequest& request) {
  constexpr size_t kMaxFreeTokens = 4096;
  const std::string& name = request.tool_choice.name;
  if (name.empty() && request.tools.size() > 1) {
    throw http::StatusError(400,
                            "tool_choice \"required\" is not supported with several tools by "
                            "this model; name one of them");
  }
  const auto tool =
      name.empty() ? request.tools.begin() : std::ranges::find(request.tools, name, &Tool::name);
  std::vector<std::string> names;
  for (const Tool& one : request.tools) names.push_back(one.name);
  const std::string known_as =
      output::harmony_names(names).at(static_cast<size_t>(tool - request.tools.begin()));
  const Json* parameters = tool->parameters();
  return {
      .grammar = grammar_of_schema(parameters != nullptr ? *parameters : Json{{"type", "object"}}),
      .starts_after = "<|channel|>commentary",
      .forced_next = " to=functions." + known_as + " <|constrain|>json<|message|>",
      .starts_within = kMaxFreeTokens};
}

AnswerShape unchecked_shape(const GenerationRequest& request, const output::Format& format,
                            const output::Start& start) {
  AnswerShape shape{.format = format, .start = start};
  const bool may_call = !request.tools.empty() && request.tool_choice.use != ToolUse::kNone;
  if (may_call && request.tool_choice.use == ToolUse::kRequired && output::is_harmony(format)) {
    shape.constraint = required_message(request);
  } else if (may_call && request.tool_choice.use == ToolUse::kRequired) {
    shape.constraint = Constraint{.grammar = grammar_of_schema(calls_schema(request, ""))};
    put_after_thinking(*shape.constraint, format, start);
    read_calls_in_array(shape);
  } else if (request.grammar) {
    shape.constraint = Constraint{.grammar = *request.grammar};
    put_after_thinking(*shape.constraint, format, start);
    const std::optional<Json> schema = json_schema_of(*request.grammar);
    if (may_call && output::is_harmony(format)) {
      // Calls are messages of their own, and may end the answer before a final message.
      shape.constraint->may_not_start = !shape.constraint->starts_after.empty();
    } else if (may_call && schema) {
      shape.constraint->grammar = grammar_of_schema(
          {{"anyOf", {moved_to(*schema, "/anyOf/0"), calls_schema(request, "/anyOf/1")}}});
      read_calls_as_json(shape);
    }
  } else if (may_call && std::ranges::any_of(request.tools, &Tool::strict)) {
    hold_to_schemas(shape, request);
  }
  return shape;
}

}  // namespace

AnswerShape shape_of(const GenerationRequest& request, const output::Format& format,
                     const output::Start& start) {
  AnswerShape shape = unchecked_shape(request, format, start);
  if (!shape.constraint) return shape;
  try {
    constraint::check(*shape.constraint);
  } catch (const Error& error) {
    throw http::StatusError(400, error.what());
  }
  return shape;
}

}  // namespace billow::api
