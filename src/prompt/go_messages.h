// Conversations through Go templates, in the two styles in which these are written: some walk
// .Messages themselves, older ones know one turn of .System, .Prompt and .Response. Also the text
// around a gap (fill in the middle), and prompts as they are. Pure; any thread may call.
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "prompt/go_template.h"

namespace billow::prompt {

struct GoMessage {
  std::string role;  // system, user, assistant, tool, or what else the template knows
  std::string content;
  std::string thinking;
  size_t n_images = 0;
  const Json* tool_calls = nullptr;  // null, or an array as in the API; the caller keeps it
  std::string tool_name;
  std::string tool_call_id;
};

struct GoInput {
  std::vector<GoMessage> messages;
  const Json* tools = nullptr;  // null, or an array as in the API; the caller keeps it
  std::string system;           // put before the messages, unless they begin with a system message
  std::string prompt;           // with messages: one more of the user
  std::string suffix;           // with a prompt: the text after the gap that is to be filled
  bool is_raw = false;          // the prompt is the result
  std::optional<bool> think;    // unset: the template decides
  std::string think_level;      // "low", "high"; empty if none was asked for
  std::time_t now = -1;         // the clock of currentDate; -1 is the machine's
};

// The text to go on from. A legacy template's last turn, and every fill in the middle, end at
// .Response, with the content of a last assistant message there. Throws Error (kInvalidInput, or
// kTooLarge beyond a limit).
std::string render(const GoTemplate& source, const GoInput& input);

}  // namespace billow::prompt
