// Decodes requests of POST /v1/responses. Thread-safe.
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
  bool shows_summary = false;  // show thinking as a summary, like OpenAI; otherwise as content
  bool shows_logprobs = false;
  std::map<std::string, CallShape> shapes{};  // of the tools
  std::vector<std::string> left_out{};        // types of ignored tools
  std::vector<std::string> unknown_fields{};
  ResponseItems before{};  // the earlier items of the conversation
  Json input{};            // the items of this request
  Json echo{};             // the fields of the request that the answer repeats
};

// Decodes a request and resolves its references in `store`. Throws http::StatusError (400).
ResponseRequest decode_response(std::string_view body, ResponseStore& store);

}  // namespace billow::api::openai
