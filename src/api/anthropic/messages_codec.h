// Codec of POST /v1/messages and /v1/messages/count_tokens. It decodes requests, and writes answers
// as one object or as a stream of events. Decoding is thread-safe. Use an answer on the request's
// thread only.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/call_answer.h"
#include "api/generation.h"

namespace billow::api::anthropic {

struct MessagesRequest {
  GenerationRequest generation{};
  bool stream = false;
  bool shows_thinking = true;  // otherwise thinking blocks are empty
  std::vector<std::string> unknown_fields{};
};

// Both functions throw http::StatusError (400).
MessagesRequest decode_message(std::string_view body);
MessagesRequest decode_count(std::string_view body);  // the request only renders its prompt

struct MessageHead {
  std::string id;
  std::string model;  // as the client wrote it
};

// REQUIRES: the call outlives the answer.
std::unique_ptr<CallAnswer> message_answer(Call& call, MessageHead head,
                                           const MessagesRequest& request,
                                           SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::anthropic
