// Writes the answer of POST /v1/responses: one object, or a stream of events. Use it on the
// request's thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/call_answer.h"
#include "api/openai/responses_codec.h"
#include "api/openai/text_answer.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// Receives the whole answer and its output items, before the client has received all of it.
using KeepResponse = std::function<void(const Json& response, const Json& output)>;

// REQUIRES: the call and the request outlive the answer.
std::unique_ptr<CallAnswer> response_answer(Call& call, AnswerHead head,
                                            const ResponseRequest& request, KeepResponse keep,
                                            SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
