// The API key that commands send to a server. Any thread.
#pragma once

#include <string>

#include "http/message.h"

namespace billow::cli {

// Returns the header field with the key in BILLOW_API_KEY, otherwise in OLLAMA_API_KEY. Returns no
// field if neither is set. Throws Error if the value cannot be a key.
http::Headers key_headers();
// The same with the key in this variable. Throws Error if the variable is not set.
http::Headers key_headers_of(const std::string& variable_name);

}  // namespace billow::cli
