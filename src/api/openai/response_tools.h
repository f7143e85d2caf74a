// The tools of /v1/responses. The model knows functions alone, so every kind of tool that the
// client runs becomes one, and a call of it is told in the form of its kind. Pure functions; any
// thread. All throw http::StatusError (400).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

enum class CallForm : uint8_t {
  kFunction,    // function_call, with arguments
  kCustom,      // custom_tool_call, with one text as input
  kLocalShell,  // local_shell_call, with a command
};

// How a call of one function is told.
struct CallShape {
  CallForm form = CallForm::kFunction;
  std::string name{};
  std::string name_space{};  // of a function that is one of a group; empty: none
};

struct ResponseTools {
  std::vector<Tool> tools{};
  ToolChoice choice{};
  std::map<std::string, CallShape> shapes{};  // by the names of `tools`
  std::vector<std::string> left_out{};        // types of tools that clients can do without
};

inline constexpr const char* kLocalShell = "local_shell";  // the name of its function

// The fields "tools", "tool_choice" and "parallel_tool_calls".
ResponseTools decode_response_tools(const Fields& request);

// The name of a function in a group: "GROUP__NAME"; "NAME" where there is none.
std::string function_name(const std::string& name_space, const std::string& name);

// The arguments of a custom tool's function, and back; the whole text where they are no such.
Json custom_arguments(const std::string& input);
std::string custom_input(const std::string& arguments);

}  // namespace billow::api::openai
