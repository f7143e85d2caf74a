// The messages of a chat in OpenAI's form, turned into ours. Pure functions; any thread.
#pragma once

#include <vector>

#include "api/fields.h"
#include "api/generation.h"

namespace billow::api::openai {

// Of the field "messages", never none, one for one. The parts of a content that is an array become
// one content, with an empty line between texts. Throws http::StatusError (400).
std::vector<Message> decode_messages(const Fields& fields);

}  // namespace billow::api::openai
