#include "api/tool_fields.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/text.h"

namespace billow::api {
namespace {

// Returns an object that means the same as a schema that is true or false.
Json object_of(bool schema) { return schema ? Json::object() : Json{{"not", Json::object()}}; }

// Returns the member of this name, in any case; null if it is absent or null.
const Json* member(const Json& object, std::string_view name) {
  const Json* found = nullptr;
  for (const auto& [key, value] : object.get_ref<const Json::object_t&>()) {
    if (key == name || (!found && equal_ignoring_case(key, name))) found = &value;
    if (key == name) break;
  }
  return found && !found->is_null() ? found : nullptr;
}

// Checks a function's parameters against the struct of Go templates, and refuses them in Go's
// words. Other than in Go, every schema can be true or false, and all types can be lists. The
// reader has already limited the depth.
class SchemaCheck {
 public:
  explicit SchemaCheck(const Fields& function) : function_(function) {}

  void check_parameters(const Json& schema) {
    path_ = "parameters";
    if (schema.is_boolean()) return;
    if (!schema.is_object()) refuse(schema, "api.Parameters");
    check_type(schema);
    check_texts(schema, "required");
    check_properties(schema);
  }

 private:
  void check_property(const Json& schema, std::string_view go_type) {
    if (schema.is_null() || schema.is_boolean()) return;
    if (!schema.is_object()) refuse(schema, go_type);
    check_type(schema);
    at(schema, "description", [&](const Json& text) {
      if (!text.is_string()) refuse(text, "string");
    });
    at(schema, "enum", [&](const Json& values) {
      if (!values.is_array()) refuse(values, "[]interface {}");
    });
    check_texts(schema, "required");
    at(schema, "anyOf", [&](const Json& list) {
      if (!list.is_array()) refuse(list, "[]api.AnyOf");
      for (const Json& one : list) check_property(one, "api.AnyOf");
    });
    check_properties(schema);
  }

  void check_properties(const Json& schema) {
    at(schema, "properties", [&](const Json& properties) {
      if (!properties.is_object()) refuse(properties, "map[string]api.Propertie");
      for (const Json& one : properties) check_property(one, "api.Propertie");
    });
  }

  // Checks a type: one name, or a list of names.
  void check_type(const Json& schema) {
    const Json* type = member(schema, "type");
    if (type && !type->is_string()) check_texts(schema, "type");
  }

  void check_texts(const Json& schema, std::string_view name) {
    at(schema, name, [&](const Json& texts) {
      if (!texts.is_array()) refuse(texts, "[]string");
      for (const Json& text : texts)
        if (!text.is_string() && !text.is_null()) refuse(text, "string");
    });
  }

  // Calls `check` for a member that exists.
  template <typename Check>
  void at(const Json& schema, std::string_view name, Check check) {
    const Json* found = member(schema, name);
    if (found == nullptr) return;
    const size_t n_before = path_.size();
    path_.append(".").append(name);
    check(*found);
    path_.resize(n_before);
  }

  [[noreturn]] void refuse(const Json& value, std::string_view go_type) const {
    function_.refuse(path_, value, go_type);
  }

  const Fields& function_;
  std::string path_;  // of the schema that is checked
};

// Returns the schema for templates, which expect an object where a schema can be true or false.
Json without_booleans(Json schema) {
  constexpr std::array<std::string_view, 3> kNamed = {"properties", "$defs", "definitions"};
  constexpr std::array<std::string_view, 3> kLists = {"anyOf", "oneOf", "allOf"};
  if (schema.is_boolean()) return object_of(schema.get<bool>());
  if (!schema.is_object()) return schema;
  for (auto& [key, value] : schema.items()) {
    const bool has_schemas =
        (value.is_object() && std::ranges::find(kNamed, key) != kNamed.end()) ||
        (value.is_array() && std::ranges::find(kLists, key) != kLists.end());
    if (has_schemas)
      for (Json& one : value) one = without_booleans(std::move(one));
    else if (key == "items")
      value = without_booleans(std::move(value));
  }
  return schema;
}

// Returns the tool's function as the client wrote it, with the fields that other code needs.
Json checked_function(const Fields& function) {
  Json made = function.all();
  made["name"] = function.text("name");
  function.text("description");
  if (const Json* parameters = function.value("parameters"))
    SchemaCheck(function).check_parameters(*parameters);
  for (const char* name : {"description", "parameters"})
    if (!function.has(name)) made.erase(name);
  if (const auto at = made.find("parameters"); at != made.end() && at->is_boolean())
    *at = object_of(at->get<bool>());
  return made;
}

Tool tool_of(Json declaration, Json function) {
  const auto strict = function.find("strict");
  Tool tool{.name = function["name"].get<std::string>(),
            .declaration = std::move(declaration),
            .strict = strict != function.end() && *strict == true};
  tool.declaration["function"] = std::move(function);
  return tool;
}

}  // namespace

std::vector<Tool> tools_of(const Fields& request) {
  std::vector<Tool> tools;
  for (const Fields& given : request.objects("tools")) {
    Json declaration = given.all();
    declaration["type"] = given.text("type");
    const std::optional<Fields> function = given.fields("function");
    tools.push_back(tool_of(std::move(declaration),
                            function ? checked_function(*function) : Json{{"name", ""}}));
  }
  return tools;
}

std::vector<Tool> functions_of(const Fields& request) {
  std::vector<Tool> tools;
  for (const Fields& function : request.objects("functions"))
    tools.push_back(tool_of({{"type", "function"}}, checked_function(function)));
  return tools;
}

std::vector<ToolCall> tool_calls_of(const Fields& message) {
  std::vector<ToolCall> calls;
  for (const Fields& given : message.objects("tool_calls")) {
    const std::optional<Fields> function = given.fields("function");
    ToolCall& call = calls.emplace_back(ToolCall{.id = given.text("id"), .name = ""});
    if (!function) continue;
    function->integer("index");  // throws if it is not a number; the order of the list counts
    call.name = function->text("name");
    if (const Json* arguments = function->object("arguments")) call.arguments = *arguments;
  }
  return calls;
}

Json declarations_of(const std::vector<Tool>& tools) {
  Json list;
  for (const Tool& tool : tools) {
    Json& made = list.emplace_back(tool.declaration);
    const auto function = made.find("function");
    if (function == made.end() || !function->is_object()) continue;
    const auto parameters = function->find("parameters");
    if (parameters != function->end()) *parameters = without_booleans(std::move(*parameters));
  }
  return list;
}

Json tool_calls_json(const std::vector<const ToolCall*>& calls) {
  Json list = Json::array();
  for (const ToolCall* call : calls) {
    Json made = Json::object();
    if (!call->id.empty()) made["id"] = call->id;
    made["function"] = {
        {"index", list.size()}, {"name", call->name}, {"arguments", call->arguments}};
    list.push_back(std::move(made));
  }
  return list;
}

}  // namespace billow::api
