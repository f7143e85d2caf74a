// POST /v1/completions: its request decoded, and its answer written, as one object or as a stream
// of chunks. Decoding is pure; an answer is used on the request's thread.
#pragma once

#include <memory>
#include <string_view>

#include "api/openai/request_values.h"
#include "api/openai/text_answer.h"

namespace billow::api::openai {

// The prompt gets the model's template around it. Throws http::StatusError (400).
TextRequest decode_completion(std::string_view body);

// Log-probabilities, where asked for, have OpenAI's form: {"tokens","token_logprobs",
// "top_logprobs","text_offset"}, offsets in characters from the beginning of the answer's tokens.
std::unique_ptr<TextAnswer> completion_answer(Call& call, AnswerHead head,
                                              const TextRequest& request,
                                              SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
