#include "api/tool_fields.h"

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "store/json_text.h"

namespace billow::api {
namespace {

// The name of a type, or several of them.
void check_type(const Fields& property) {
  const Json* type = property.value("type");
  if (type && !type->is_string()) property.texts("type");
}

// A JSON schema as Go templates know it. The reader of the request has bounded the depth.
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

// What the client wrote, with the fields that others count on.
Json checked_tool(const Fields& tool) {
  Json made = tool.all();
  made["type"] = tool.text("type");
  const std::optional<Fields> function = tool.fields("function");
  Json own = function ? function->all() : Json::object();
  own["name"] = function ? function->text("name") : "";
  if (function) {
    function->text("description");
    if (const auto parameters = function->fields("parameters")) check_parameters(*parameters);
    for (const char* name : {"description", "parameters"})
      if (!function->has(name)) own.erase(name);
  }
  made["function"] = std::move(own);
  return made;
}

}  // namespace

std::string tools_json(const Fields& request) {
  Json tools = Json::array();
  for (const Fields& tool : request.objects("tools")) tools.push_back(checked_tool(tool));
  return tools.empty() ? "" : store::compact(tools);
}

std::string tool_calls_json(const Fields& message) {
  Json calls = Json::array();
  for (const Fields& call : message.objects("tool_calls")) {
    const std::string id = call.text("id");
    const std::optional<Fields> given = call.fields("function");
    Json made = Json::object();
    if (!id.empty()) made["id"] = id;
    Json& function = made["function"];
    const std::optional<int64_t> index = given ? given->integer("index") : std::nullopt;
    function["index"] = index.value_or(static_cast<int64_t>(calls.size()));
    function["name"] = given ? given->text("name") : "";
    const Json* arguments = given ? given->object("arguments") : nullptr;
    function["arguments"] = arguments ? *arguments : Json::object();
    calls.push_back(std::move(made));
  }
  return calls.empty() ? "" : store::compact(calls);
}

}  // namespace billow::api
