// The messages of a chat in OpenAI's form, turned into ours. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// Of the field "messages", never none, one for one. The parts of a content that is an array become
// one content, with an empty line between texts. Throws http::StatusError (400).
std::vector<Message> decode_messages(const Fields& fields);

// The bytes of an image that its URL has: "data:image/png;base64,...". Throws http::StatusError
// (400).
std::string image_of_url(std::string_view url);

// The arguments of a call that a text holds, null as none. Throws http::StatusError (400).
Json arguments_of(const std::string& text);

}  // namespace billow::api::openai
