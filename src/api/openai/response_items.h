// The items of a conversation as /v1/responses has them: messages, calls of tools, their results,
// reasoning. Pure functions; any thread. All throw http::StatusError (400).
#pragma once

#include <string>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// The field "input" as an array of objects, each with its "type" and an id, and messages with their
// content as parts. References to items stay as they are.
Json items_of_input(const Fields& request);

// The conversation of such items, where there are no references any more. `instructions` come
// first; neighbours of one role are one message.
std::vector<Message> messages_of_items(const Json& items, const std::string& instructions);

}  // namespace billow::api::openai
