#include "api/grammar_fields.h"

#include <string>
#include <utility>
#include <vector>

#include "api/json_reader.h"
#include "base/json.h"
#include "base/text.h"
#include "http/status.h"

namespace billow::api {
namespace {

using constraint::Grammar;
using constraint::GrammarKind;
using http::StatusError;

Grammar schema_grammar(const Json& schema) {
  return {.kind = GrammarKind::kJsonSchema, .text = schema.dump()};
}

// Parses an object, true, false, or a text that contains one of these.
Grammar schema_field(const std::string& name, const Json& value) {
  if (value.is_object() || value.is_boolean()) return schema_grammar(value);
  if (value.is_string()) {
    const std::optional<Json> schema = read_inner_json(value.get_ref<const std::string&>());
    if (schema && (schema->is_object() || schema->is_boolean())) return schema_grammar(*schema);
  }
  throw StatusError(400, "field \"" + name + "\" must be a JSON schema");
}

std::string text_field(const std::string& name, const Json& value) {
  if (!value.is_string()) throw StatusError(400, "field \"" + name + "\" must be a string");
  return value.get<std::string>();
}

std::vector<std::string> texts_field(const std::string& name, const Json& value) {
  std::vector<std::string> texts;
  for (const Json& one : value.is_array() ? value : Json::array()) {
    if (!one.is_string()) break;
    texts.push_back(one.get<std::string>());
  }
  if (texts.empty() || texts.size() != value.size())
    throw StatusError(400, "field \"" + name + "\" must be a list of strings");
  return texts;
}

std::optional<Grammar> of_response_format(const Fields& request) {
  const auto format = request.fields("response_format");
  if (!format) return std::nullopt;
  const std::string text = format->text("type");
  const std::string type = lower_case(trimmed(text));
  if (type.empty() || type == "text") return std::nullopt;
  // llama-server and others also accept a schema with this type.
  if (type == "json_object") {
    if (const Json* schema = format->value("schema"))
      return schema_field("response_format.schema", *schema);
    return Grammar{.kind = GrammarKind::kJsonObject};
  }
  if (type == "grammar") return grammar_text(format->text("grammar"));
  if (type != "json_schema") {
    throw StatusError(400,
                      "field \"response_format.type\" must be \"text\", \"json_object\" or "
                      "\"json_schema\", not \"" +
                          text + "\"");
  }
  const auto wrapped = format->fields("json_schema");
  const Json* schema = wrapped ? wrapped->value("schema") : format->value("schema");
  if (schema == nullptr)
    throw StatusError(400, "field \"response_format.json_schema.schema\" is missing");
  return schema_field("response_format.json_schema.schema", *schema);
}

struct Kind {
  const char* name;  // in "structured_outputs", and after "guided_"
  Grammar (*read)(const std::string& field, const Json& value);
};
constexpr Kind kKinds[] = {
    {"json", schema_field},
    {"regex",
     [](const std::string& field, const Json& value) {
       return Grammar{.kind = GrammarKind::kRegex, .text = text_field(field, value)};
     }},
    {"choice", [](const std::string& field,
                  const Json& value) { return choice_grammar(texts_field(field, value)); }},
    {"grammar", [](const std::string& field,
                   const Json& value) { return grammar_text(text_field(field, value)); }},
};

}  // namespace

Grammar grammar_text(std::string text) {
  const bool is_gbnf = text.find("::=") != std::string::npos;
  return {.kind = is_gbnf ? GrammarKind::kGbnf : GrammarKind::kLark, .text = std::move(text)};
}

Grammar choice_grammar(const std::vector<std::string>& choices) {
  Grammar made{.kind = GrammarKind::kGbnf, .text = "root ::= "};
  for (size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) made.text += " | ";
    made.text += Json(choices[i]).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return made;
}

std::optional<Grammar> grammar_of(const Fields& request) {
  std::optional<Grammar> found;
  std::string from;
  const auto take = [&](const std::string& field, Grammar grammar) {
    if (found && *found != grammar)
      throw StatusError(400, "fields \"" + from + "\" and \"" + field +
                                 "\" ask for different answers; remove one of them");
    found = std::move(grammar);
    from = field;
  };
  if (auto grammar = of_response_format(request)) take("response_format", *std::move(grammar));
  const auto structured = request.fields("structured_outputs");
  for (const Kind& kind : kKinds) {
    const std::string guided = "guided_" + std::string(kind.name);
    if (const Json* value = request.value(guided)) take(guided, kind.read(guided, *value));
    if (!structured) continue;
    const std::string field = "structured_outputs." + std::string(kind.name);
    if (const Json* value = structured->value(kind.name)) take(field, kind.read(field, *value));
  }
  if (structured && structured->flag("json_object").value_or(false))
    take("structured_outputs.json_object", {.kind = GrammarKind::kJsonObject});
  if (structured && structured->has("structural_tag"))
    throw StatusError(400,
                      "field \"structured_outputs.structural_tag\" is not supported: use tools "
                      "with \"strict\": true");
  const std::string grammar = request.text("grammar");
  if (!grammar.empty()) take("grammar", grammar_text(grammar));
  if (const Json* schema = request.value("json_schema"))
    take("json_schema", schema_field("json_schema", *schema));
  return found;
}

}  // namespace billow::api
