// The texts with which a Go template surrounds what a model writes: its thinking, and its calls of
// tools. Pure; any thread may call.
#pragma once

#include <optional>
#include <string>

#include "prompt/go_template.h"

namespace billow::prompt {

struct ThinkingTags {
  std::string open;
  std::string close;
};

// The texts that begin and end the innermost block in which the template prints .Thinking of a
// message, trimmed; nullopt if there is no such block, or none that begins and ends with text.
std::optional<ThinkingTags> infer_thinking_tags(const GoTemplate& source);

// The text with which the template begins the calls of a message, up to the first brace: "{" if it
// begins them with nothing else.
std::string infer_tool_tag(const GoTemplate& source);

}  // namespace billow::prompt
