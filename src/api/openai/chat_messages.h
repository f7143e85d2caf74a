// Converts the messages of a chat from OpenAI's form. Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/fields.h"
#include "api/generation.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// Parses the field "messages", which must not be empty. Each message stays one message. If its
// content is an array, the parts become parts of the message. Throws http::StatusError (400).
std::vector<Message> decode_messages(const Fields& fields);

// Returns the image of a URL: bytes from "data:image/png;base64,...", or the address of an http or
// https URL. Throws http::StatusError (400).
ImagePart image_of_url(std::string_view url);

// Parses the arguments of a call from a text. A blank text and null mean no arguments. A model can
// write arguments that are not a JSON object. The call then comes back in the next request, so a
// text that is not an object becomes {"INVALID_JSON": text}, and the model sees its mistake.
Json arguments_of(const std::string& text);

}  // namespace billow::api::openai
