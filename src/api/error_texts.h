// Texts of errors that the APIs report with a code of their own.
#pragma once

#include <cstddef>
#include <string_view>

namespace billow::api {

// Max bytes of a refusal, which may quote the request.
inline constexpr size_t kMaxRefusalBytes = 2048;

// The refusal of a prompt that exceeds the context begins with this text.
inline constexpr std::string_view kPromptTooLong =
    "the prompt is longer than the context length currently available to the model";

}  // namespace billow::api
