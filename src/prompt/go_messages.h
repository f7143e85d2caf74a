// Renders conversations with Go templates. Go templates have two styles. Some walk .Messages
// themselves; older (legacy) ones see one turn of .System, .Prompt and .Response. Also renders
// prompts with a gap (fill in the middle) and raw prompts. Pure functions; thread-safe.
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
  std::string role;  // system, user, assistant, tool, or another role of the template
  std::string content;
  std::string thinking;
  size_t n_images = 0;
  const Json* tool_calls = nullptr;  // null, or an array as in the API; the caller owns it
  std::string tool_name;
  std::string tool_call_id;
};

struct GoInput {
  std::vector<GoMessage> messages;
  const Json* tools = nullptr;  // null, or an array as in the API; the caller owns it
  std::string system;           // goes before the messages, unless they begin with a system message
  std::string prompt;           // goes after the messages, as one more message of the user
  std::string suffix;           // with a prompt: the text after the gap that the model fills
  bool is_raw = false;          // the result is the prompt, unchanged
  std::optional<bool> think;    // unset: the template decides
  std::string think_level;      // "low", "high"; empty: no level requested
  std::time_t now = -1;         // the clock of currentDate; -1: the machine's clock
};

// Returns the prompt, which the model continues. The last turn of a legacy template, and every fill
// in the middle, end at .Response. In a legacy template, a last assistant message fills .Response.
// Throws Error (kInvalidInput; kTooLarge beyond a limit).
std::string render(const GoTemplate& source, const GoInput& input);

}  // namespace billow::prompt
