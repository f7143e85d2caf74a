#include "api/openai/response_tools.h"

#include <algorithm>
#include <array>
#include <utility>

#include "api/json_reader.h"
#include "api/openai/errors.h"
#include "api/tool_choice.h"
#include "api/tool_fields.h"
#include "base/json.h"

namespace billow::api::openai {
namespace {

Json text_schema(const char* description) {
  return {{"type", "string"}, {"description", description}};
}

Json custom_schema() {
  Json schema = {{"type", "object"}};
  schema["properties"]["input"] = text_schema("What the tool is given, as it is.");
  schema["required"] = Json::array({"input"});
  return schema;
}

Json shell_schema() {
  Json schema = {{"type", "object"}};
  Json& properties = schema["properties"];
  properties["command"] = {{"type", "array"},
                           {"items", {{"type", "string"}}},
                           {"description", "The program and its arguments."}};
  properties["working_directory"] = text_schema("Where it runs.");
  properties["timeout_ms"] = {{"type", "integer"}, {"description", "How long it may run."}};
  schema["required"] = Json::array({"command"});
  return schema;
}

// Returns the description of a custom tool, with the grammar of its input.
std::string custom_description(const Fields& tool) {
  std::string text = tool.text("description");
  const auto format = tool.fields("format");
  if (!format || format->text("type") != "grammar") return text;
  if (!text.empty()) text += "\n\n";
  return text + "The input must match this grammar (" + format->text("syntax") + "):\n" +
         format->text("definition");
}

class Reader {
 public:
  void read(const Fields& tool, const std::string& name_space = "") {
    const std::string type = tool.text("type");
    if (type == "function") {
      add_function(tool, name_space);
    } else if (type == "custom") {
      const std::string name = tool.text("name");
      add({.form = CallForm::kCustom, .name = name}, {{"name", name},
                                                      {"description", custom_description(tool)},
                                                      {"parameters", custom_schema()}});
    } else if (type == kLocalShell) {
      add({.form = CallForm::kLocalShell, .name = kLocalShell},
          {{"name", kLocalShell},
           {"description", "Runs a command on the user's machine."},
           {"parameters", shell_schema()}});
    } else if (type == "namespace" && name_space.empty()) {
      for (const Fields& one : tool.objects("tools")) read(one, tool.text("name"));
    } else if (can_be_left_out(type)) {
      made_.left_out.push_back(type);
    } else {
      refuse("field \"tools\" has a tool of type \"" + type + "\", which is not supported");
    }
  }

  ResponseTools take(const Fields& request) {
    if (!declarations_.empty())
      made_.tools =
          tools_of(Fields::parse(Json{{"tools", declarations_}}.dump(), "ResponsesRequest"));
    choose(request);
    return std::move(made_);
  }

 private:
  static bool can_be_left_out(std::string_view type) {
    constexpr std::array<std::string_view, 3> kOptional = {"web_search", "image_generation",
                                                           "tool_search"};
    return std::ranges::any_of(kOptional,
                               [&](std::string_view one) { return type.starts_with(one); });
  }

  void add_function(const Fields& tool, const std::string& name_space) {
    const std::string name = tool.text("name");
    Json function = {{"name", function_name(name_space, name)}};
    for (const char* field : {"description", "parameters", "strict"})
      if (const Json* value = tool.value(field)) function[field] = *value;
    add({.name = name, .name_space = name_space}, std::move(function));
  }

  void add(CallShape shape, Json function) {
    if (shape.name.empty()) refuse("field \"tools\" has a tool without a name");
    const auto name = function["name"].get<std::string>();
    if (!made_.shapes.emplace(name, std::move(shape)).second)
      refuse("field \"tools\" has two tools with the name \"" + name + "\"");
    declarations_.push_back({{"type", "function"}, {"function", std::move(function)}});
  }

  // Parses the choice of one tool or of several.
  void choose(const Fields& request) {
    Json choice;
    if (const auto parallel = request.flag("parallel_tool_calls"))
      choice["parallel_tool_calls"] = *parallel;
    const Json* value = request.value("tool_choice");
    if (value != nullptr && value->is_object())
      choice["tool_choice"] = choice_of(request.fields("tool_choice").value());
    else if (value != nullptr)
      choice["tool_choice"] = *value;
    if (choice.is_null()) return;
    made_.choice = tool_choice_of(Fields::parse(choice.dump(), "ResponsesRequest"), made_.tools);
  }

  Json choice_of(const Fields& given) {
    const std::string type = given.text("type");
    if (type == kLocalShell) return {{"name", kLocalShell}};
    if (type == "function" || type == "custom")
      return {{"name", function_name(given.text("namespace"), given.text("name"))}};
    if (type != "allowed_tools")
      refuse("field \"tool_choice.type\" is \"" + type + "\", which is not supported");
    std::vector<std::string> allowed;
    for (const Fields& one : given.objects("tools")) {
      const std::string name = one.text("type") == kLocalShell
                                   ? kLocalShell
                                   : function_name(one.text("namespace"), one.text("name"));
      if (!name.empty()) allowed.push_back(name);
    }
    std::erase_if(made_.tools, [&](const Tool& tool) {
      return std::ranges::find(allowed, tool.name) == allowed.end();
    });
    const std::string mode = given.text("mode");
    return mode.empty() ? "auto" : mode;
  }

  ResponseTools made_;
  Json declarations_ = Json::array();
};

}  // namespace

ResponseTools decode_response_tools(const Fields& request) {
  Reader reader;
  for (const Fields& tool : request.objects("tools")) reader.read(tool);
  return reader.take(request);
}

std::string function_name(const std::string& name_space, const std::string& name) {
  return name_space.empty() ? name : name_space + "__" + name;
}

Json custom_arguments(const std::string& input) { return {{"input", input}}; }

std::string custom_input(const std::string& arguments) {
  const Json object = read_inner_json(arguments).value_or(nullptr);
  const auto input = object.is_object() ? object.find("input") : object.end();
  return input != object.end() && input->is_string() ? input->get<std::string>() : arguments;
}

}  // namespace billow::api::openai
