// The conversation and the tools of a request in Anthropic's form, where a message consists of
// blocks. Pure functions; any thread. All throw http::StatusError (400).
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::anthropic {

// The fields "system" and "messages". Turns of one role that follow each other are one message, and
// results of tools are messages of their own, before what else their turn has.
std::vector<Message> decode_messages(const Fields& request);

// The field "tools".
std::vector<Tool> decode_tools(const Fields& request);

// The field "tool_choice".
ToolChoice decode_tool_choice(const Fields& request, const std::vector<Tool>& tools);

}  // namespace billow::api::anthropic
