#include "api/tool_choice.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "http/status.h"

namespace billow::api {
namespace {

using http::StatusError;

constexpr std::array<std::pair<std::string_view, ToolUse>, 3> kUses{{
    {"auto", ToolUse::kAuto},
    {"none", ToolUse::kNone},
    {"required", ToolUse::kRequired},
}};

// Returns "" if the value names no function.
std::string function_name(const Json& value) {
  if (!value.is_object()) return "";
  const Json* at = &value;
  const auto function = value.find("function");
  if (function != value.end() && function->is_object()) at = &*function;
  const auto name = at->find("name");
  return name != at->end() && name->is_string() ? name->get<std::string>() : "";
}

}  // namespace

ToolChoice tool_choice_of(const Fields& request, const std::vector<Tool>& tools) {
  ToolChoice choice;
  choice.parallel = request.flag("parallel_tool_calls").value_or(true);
  const char* field = request.has("tool_choice") ? "tool_choice" : "function_call";
  const Json* value = request.value(field);
  if (value == nullptr) return choice;
  if (value->is_string()) {
    const auto* known =
        std::ranges::find(kUses, value->get<std::string>(), &decltype(kUses)::value_type::first);
    if (known == kUses.end()) {
      throw StatusError(400, "field \"" + std::string(field) +
                                 "\" must be \"none\", \"auto\", \"required\" or name a function, "
                                 "not " +
                                 value->dump());
    }
    choice.use = known->second;
  } else {
    choice.use = ToolUse::kRequired;
    choice.name = function_name(*value);
    if (choice.name.empty())
      throw StatusError(400, "field \"" + std::string(field) +
                                 "\" must be \"none\", \"auto\", \"required\" or name a function");
  }
  if (choice.use != ToolUse::kRequired) return choice;
  if (tools.empty())
    throw StatusError(
        400, "field \"" + std::string(field) + "\" asks for a call, but there are no tools");
  if (!choice.name.empty() && std::ranges::find(tools, choice.name, &Tool::name) == tools.end())
    throw StatusError(400, "field \"" + std::string(field) + "\" names the function \"" +
                               choice.name + "\", which is not in \"tools\"");
  return choice;
}

}  // namespace billow::api
