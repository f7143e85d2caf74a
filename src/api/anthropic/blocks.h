// Parses the conversation and the tools of a request in Anthropic's form, where a message consists
// of blocks. Pure functions; thread-safe. All functions throw http::StatusError (400).
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::anthropic {

// Parses the fields "system" and "messages". Consecutive turns of one role become one message. Each
// tool result becomes a separate message, before the rest of its turn.
std::vector<Message> decode_messages(const Fields& request);

// Parses the field "tools".
std::vector<Tool> decode_tools(const Fields& request);

// Parses the field "tool_choice".
ToolChoice decode_tool_choice(const Fields& request, const std::vector<Tool>& tools);

}  // namespace billow::api::anthropic
