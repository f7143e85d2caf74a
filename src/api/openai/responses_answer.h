// The answer of POST /v1/responses: one object, or a stream of events. Used on the request's
// thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/call_answer.h"
#include "api/openai/responses_codec.h"
#include "api/openai/text_answer.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

// Called with the answer, whole, before the client has all of it; and with its items.
using KeepResponse = std::function<void(const Json& response, const Json& output)>;

// The request outlives the answer.
std::unique_ptr<CallAnswer> response_answer(Call& call, AnswerHead head,
                                            const ResponseRequest& request, KeepResponse keep,
                                            SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::openai
