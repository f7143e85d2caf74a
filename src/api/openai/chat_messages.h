// The messages of a chat in OpenAI's form, turned into ours. Pure functions; any thread.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::openai {

// Of the field "messages", never none: a message for each part of a content that is an array, with
// the role of the whole. Tool calls and what was thought go with the last part, the id and name of
// the tool with each. Throws http::StatusError (400).
std::vector<Message> decode_messages(const Fields& fields);

}  // namespace billow::api::openai
