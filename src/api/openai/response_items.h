// Converts the items of /v1/responses: messages, tool calls, their results and reasoning. Pure
// functions; thread-safe. All functions throw http::StatusError (400).
#pragma once

#include <string>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// Returns the field "input" as an array of objects. Each has its "type" and an id; a message has
// its content as parts. References to items are not resolved.
Json items_of_input(const Fields& request);

// Returns the conversation of such items. `instructions` come first. Consecutive items of one role
// become one message. REQUIRES: all references are resolved.
std::vector<Message> messages_of_items(const Json& items, const std::string& instructions);

}  // namespace billow::api::openai
