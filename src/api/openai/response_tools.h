// Parses the tools of /v1/responses. Models can only call functions, so each kind of tool of the
// client becomes a function. Its calls are converted back to the form of that kind. Pure functions;
// thread-safe. All functions throw http::StatusError (400).
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

// The form of calls of one function in the answer.
struct CallShape {
  CallForm form = CallForm::kFunction;
  std::string name{};
  std::string name_space{};  // namespace of the function; empty: none
};

struct ResponseTools {
  std::vector<Tool> tools{};
  ToolChoice choice{};
  std::map<std::string, CallShape> shapes{};  // by names in `tools`
  std::vector<std::string> left_out{};  // types of ignored tools, which clients can do without
};

inline constexpr const char* kLocalShell = "local_shell";  // the name of its function

// Parses the fields "tools", "tool_choice" and "parallel_tool_calls".
ResponseTools decode_response_tools(const Fields& request);

// Returns the full name of a function in a namespace: "GROUP__NAME"; "NAME" without a namespace.
std::string function_name(const std::string& name_space, const std::string& name);

// These functions convert the text of a custom tool to arguments of its function, and back. If the
// arguments have another form, custom_input() returns them unchanged.
Json custom_arguments(const std::string& input);
std::string custom_input(const std::string& arguments);

}  // namespace billow::api::openai
