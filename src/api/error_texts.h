// Refusals of requests, and texts of errors that the APIs report with a code of their own.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/one_line.h"
#include "http/status.h"

namespace billow::api {

// Max bytes of a refusal, which may quote the request.
inline constexpr size_t kMaxRefusalBytes = 2048;
// Throws http::StatusError (400) with the text in one line.
[[noreturn]] inline void refuse(const std::string& text) {
  throw http::StatusError(400, one_line(text, kMaxRefusalBytes));
}

// The refusal of a prompt that exceeds the context begins with this text.
inline constexpr std::string_view kPromptTooLong =
    "the prompt is longer than the context length currently available to the model";

}  // namespace billow::api
