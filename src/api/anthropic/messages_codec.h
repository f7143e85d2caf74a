// POST /v1/messages and /v1/messages/count_tokens: a request decoded, and its answer written, as
// one object or as a stream of events. Decoding is pure; an answer is used on the request's thread.
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
  bool shows_thinking = true;  // else its blocks are empty
  std::vector<std::string> unknown_fields{};
};

// Throw http::StatusError (400).
MessagesRequest decode_message(std::string_view body);
MessagesRequest decode_count(std::string_view body);  // its prompt is only rendered

struct MessageHead {
  std::string id;
  std::string model;  // as the client wrote it
};

std::unique_ptr<CallAnswer> message_answer(Call& call, MessageHead head,
                                           const MessagesRequest& request,
                                           SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::anthropic
