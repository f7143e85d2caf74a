#include "api/tool_fields.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"

namespace billow::api {
namespace {

// Checks a type: one name, or a list of names.
void check_type(const Fields& property) {
  const Json* type = property.value("type");
  if (type && !type->is_string()) property.texts("type");
}

// Checks a JSON schema against the struct of Go templates. The reader has already limited its
// depth.
void check_property(const Fields& property) {
  check_type(property);
  property.text("description");
  property.array("enum");
  property.texts("required");
  for (const Fields& one : property.objects("anyOf")) check_property(one);
  for (const auto& [name, member] : property.members("properties")) check_property(member);
}

void check_parameters(const Fields& parameters) {
  parameters.text("type");
  parameters.texts("required");
  for (const auto& [name, member] : parameters.members("properties")) check_property(member);
}

// Returns the tool's function as the client wrote it, with the fields that other code needs.
Json checked_function(const Fields& function) {
  Json made = function.all();
  made["name"] = function.text("name");
  function.text("description");
  if (const auto parameters = function.fields("parameters")) check_parameters(*parameters);
  for (const char* name : {"description", "parameters"})
    if (!function.has(name)) made.erase(name);
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
  for (const Tool& tool : tools) list.push_back(tool.declaration);
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
