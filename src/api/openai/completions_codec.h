// Codec of POST /v1/completions. It decodes requests, and writes answers as one object or as a
// stream of chunks. Decoding is thread-safe. Use an answer on the request's thread only.
#pragma once

#include <memory>
#include <string_view>

#include "api/openai/request_values.h"
#include "api/openai/text_answer.h"

namespace billow::api::openai {

// Decodes a request. Prompts are raw unless the request sets "raw" to false or has a suffix. Throws
// http::StatusError (400).
TextRequest decode_completion(std::string_view body);

// Log probabilities, if requested, have OpenAI's form:
// {"tokens","token_logprobs","top_logprobs","text_offset"}. Offsets count characters from the
// beginning of the answer's tokens. REQUIRES: the call outlives the answer.
std::unique_ptr<TextAnswer> completion_answer(Call& call, AnswerHead head,
                                              const TextRequest& request,
                                              SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
