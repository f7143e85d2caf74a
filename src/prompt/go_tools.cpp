#include "prompt/go_tools.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace billow::prompt {
namespace {

using go::Field;
using go::TextForm;
using go::Value;
using Members = std::vector<std::pair<Field, Value>>;

[[noreturn]] void refuse(std::string_view what) {
  throw Error(ErrorCode::kInvalidInput, "tools: " + std::string(what));
}

// Returns the member of `object`, or null if it is absent or null.
const Json* find(const Json& object, std::string_view key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

Value text_of(const Json& object, std::string_view key) {
  const Json* text = find(object, key);
  if (text && !text->is_string()) refuse("\"" + std::string(key) + "\" must be a string");
  return Value::text(text ? text->get<std::string>() : std::string());
}

Value list_of(const Json& object, std::string_view key) {
  const Json* list = find(object, key);
  if (list && !list->is_array()) refuse("\"" + std::string(key) + "\" must be an array");
  return list ? go::from_json(*list) : Value::list({});
}

Value any_of(const Json& object, std::string_view key) {
  const Json* value = find(object, key);
  return value ? go::from_json(*value) : Value();
}

// Returns a schema as an object: {} for true, and {"not":{}} for false.
Json schema_of(const Json& json) {
  if (!json.is_boolean()) return json;
  return json.get<bool>() ? Json::object() : Json{{"not", Json::object()}};
}

Value items_of(const Json& object) {
  const Json* items = find(object, "items");
  return items ? go::from_json(schema_of(*items)) : Value();
}

// Returns the names of a property's types: one or several.
Value types_of(const Json& object) {
  const Json* type = find(object, "type");
  std::vector<Value> names;
  if (type && type->is_string()) {
    names.push_back(Value::text(type->get<std::string>()));
  } else if (type && type->is_array()) {
    for (const Json& name : *type) {
      if (!name.is_string()) refuse("\"type\" must name types");
      names.push_back(Value::text(name.get<std::string>()));
    }
  } else if (type) {
    refuse("\"type\" must be a string or an array of strings");
  }
  return Value::list(std::move(names), TextForm::kPropertyType);
}

Value property(const Json& json, size_t depth);

Value properties_of(const Json& object, size_t depth) {
  const Json* properties = find(object, "properties");
  if (properties && !properties->is_object()) refuse("\"properties\" must be an object");
  std::vector<std::pair<std::string, Value>> entries;
  if (properties) {
    for (const auto& [name, json] : properties->items()) {
      entries.emplace_back(name, property(json, depth + 1));
    }
  }
  return Value::map(std::move(entries), TextForm::kJson);
}

Value alternatives_of(const Json& object, size_t depth) {
  const Json* list = find(object, "anyOf");
  if (list && !list->is_array()) refuse("\"anyOf\" must be an array");
  std::vector<Value> items;
  if (list) {
    for (const Json& json : *list) items.push_back(property(json, depth + 1));
  }
  return Value::list(std::move(items));
}

Value property(const Json& json, size_t depth) {
  if (depth > go::kMaxDataDepth) {
    throw Error(ErrorCode::kTooLarge,
                "tools: nested deeper than " + std::to_string(go::kMaxDataDepth) + " levels");
  }
  if (json.is_boolean()) return property(schema_of(json), depth);
  if (!json.is_object()) refuse("a property must be an object or a boolean");
  return Value::record({{{"AnyOf", "anyOf", true}, alternatives_of(json, depth)},
                        {{"Type", "type", true}, types_of(json)},
                        {{"Items", "items", true}, items_of(json)},
                        {{"Description", "description", true}, text_of(json, "description")},
                        {{"Enum", "enum", true}, list_of(json, "enum")},
                        {{"Properties", "properties", true}, properties_of(json, depth)},
                        {{"Required", "required", true}, list_of(json, "required")}});
}

// Returns the type of a function's parameters as one name, because it is a text in Ollama.
// Arguments are always an object.
Value type_of_parameters(const Json& json) {
  const Json* type = find(json, "type");
  if (!type || !type->is_array()) return text_of(json, "type");
  const bool has_object = std::ranges::find(*type, Json("object")) != type->end();
  if (has_object || type->empty()) return Value::text(has_object ? "object" : "");
  if (!type->front().is_string()) refuse("\"type\" must name types");
  return Value::text(type->front().get<std::string>());
}

Value parameters(const Json& json) {
  if (!json.is_object()) refuse("\"parameters\" must be an object");
  return Value::record({{{"Type", "type"}, type_of_parameters(json)},
                        {{"Defs", "$defs", true}, any_of(json, "$defs")},
                        {{"Items", "items", true}, items_of(json)},
                        {{"Required", "required", true}, list_of(json, "required")},
                        {{"Properties", "properties"}, properties_of(json, 1)}},
                       TextForm::kJson);
}

Value function(const Json& json) {
  if (!json.is_object()) refuse("\"function\" must be an object");
  const Json* schema = find(json, "parameters");
  return Value::record(
      {{{"Name", "name"}, text_of(json, "name")},
       {{"Description", "description"}, text_of(json, "description")},
       {{"Parameters", "parameters"}, parameters(schema ? *schema : Json::object())}},
      TextForm::kJson);
}

Value tool(const Json& json) {
  if (!json.is_object()) refuse("a tool must be an object");
  const Json* body = find(json, "function");
  return Value::record({{{"Type", "type"}, text_of(json, "type")},
                        {{"Items", "items", true}, any_of(json, "items")},
                        {{"Function", "function"}, function(body ? *body : Json::object())}},
                       TextForm::kJson);
}

Value call(const Json& json, size_t index) {
  if (!json.is_object()) refuse("a tool call must be an object");
  const Json* body = find(json, "function");
  if (!body || !body->is_object()) refuse("a tool call must have a \"function\"");
  const Json* arguments = find(*body, "arguments");
  if (arguments && !arguments->is_object()) refuse("\"arguments\" must be an object");
  const Json* place = find(*body, "index");
  const bool has_place = place && place->is_number_integer();
  const Value record = Value::record(
      {{{"Index", "index"},
        Value::integer(has_place ? place->get<int64_t>() : static_cast<int64_t>(index))},
       {{"Name", "name"}, text_of(*body, "name")},
       {{"Arguments", "arguments"},
        go::from_json(arguments ? *arguments : Json::object(), TextForm::kJson)}});
  return Value::record(
      {{{"ID", "id", true}, text_of(json, "id")}, {{"Function", "function"}, record}});
}

}  // namespace

go::Value go_tools(const Json& tools) {
  if (!tools.is_null() && !tools.is_array()) refuse("they must be an array");
  std::vector<Value> items;
  for (const Json& json : tools) items.push_back(tool(json));
  return Value::list(std::move(items), TextForm::kJson);
}

go::Value go_tool_calls(const Json& calls) {
  if (!calls.is_null() && !calls.is_array()) refuse("tool calls must be an array");
  std::vector<Value> items;
  for (const Json& json : calls) items.push_back(call(json, items.size()));
  return Value::list(std::move(items));
}

}  // namespace billow::prompt
