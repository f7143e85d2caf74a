// Codec of POST /v1/chat/completions. It decodes requests, and writes answers as one object or as a
// stream of chunks. Decoding is thread-safe. Use an answer on the request's thread only.
#pragma once

#include <memory>
#include <string_view>

#include "api/openai/request_values.h"
#include "api/openai/text_answer.h"

namespace billow::api::openai {

// Throws http::StatusError (400).
TextRequest decode_chat(std::string_view body);

// REQUIRES: the call outlives the answer.
std::unique_ptr<TextAnswer> chat_answer(Call& call, AnswerHead head, const TextRequest& request,
                                        SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
