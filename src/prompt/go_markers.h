// Finds the texts that a Go template puts around a model's thinking and tool calls. Pure functions;
// thread-safe.
#pragma once

#include <optional>
#include <string>

#include "prompt/go_template.h"

namespace billow::prompt {

struct ThinkingTags {
  std::string open;
  std::string close;
};

// Returns the texts, trimmed, that begin and end the innermost block in which the template prints
// .Thinking of a message. Returns nullopt if no such block begins and ends with text.
std::optional<ThinkingTags> infer_thinking_tags(const GoTemplate& source);

// Returns the text with which the template begins the tool calls of a message, up to the first
// brace. Returns "{" if there is no text before the brace.
std::string infer_tool_tag(const GoTemplate& source);

}  // namespace billow::prompt
