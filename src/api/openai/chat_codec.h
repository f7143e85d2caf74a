// POST /v1/chat/completions: its request decoded, and its answer written, as one object or as a
// stream of chunks. Decoding is pure; an answer is used on the request's thread.
#pragma once

#include <memory>
#include <string_view>

#include "api/openai/request_values.h"
#include "api/openai/text_answer.h"

namespace billow::api::openai {

// Throws http::StatusError (400).
TextRequest decode_chat(std::string_view body);

std::unique_ptr<TextAnswer> chat_answer(Call& call, AnswerHead head, const TextRequest& request,
                                        SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
