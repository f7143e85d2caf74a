// POST /v1/responses: its request decoded. Any thread.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/generation.h"
#include "api/openai/response_store.h"
#include "api/openai/response_tools.h"
#include "base/json_fwd.h"

namespace billow::api::openai {

struct ResponseRequest {
  GenerationRequest generation{};
  bool stream = false;
  bool stores = true;
  bool shows_summary = false;  // thinking is a summary, as OpenAI's is; else content
  bool shows_logprobs = false;
  std::map<std::string, CallShape> shapes{};  // of the tools
  std::vector<std::string> left_out{};        // types of tools
  std::vector<std::string> unknown_fields{};
  ResponseItems before{};  // what the conversation had before
  Json input{};            // the items of this request
  Json echo{};             // the fields of the request, as the answer has them
};

// Throws http::StatusError (400). The store has what the request refers to.
ResponseRequest decode_response(std::string_view body, ResponseStore& store);

}  // namespace billow::api::openai
