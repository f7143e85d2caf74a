// For tests: the error that a decoder throws for a request. Not thread-safe.
#pragma once

#include <string>

#include "http/status.h"

namespace billow::api::openai {

// Returns the text of the 400 that `decode` throws; "" if it does not throw.
template <typename Decode>
std::string refusal(Decode decode, const std::string& body) {
  try {
    decode(body);
  } catch (const http::StatusError& error) {
    return error.status() == 400 ? error.what() : std::to_string(error.status());
  }
  return "";
}

}  // namespace billow::api::openai
