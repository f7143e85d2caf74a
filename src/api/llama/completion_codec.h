// Codec of POST /completion, /completions and /infill in llama-server's form. It decodes requests,
// and writes answers as one object or as a stream of chunks. Decoding is thread-safe. Use an answer
// on the request's thread only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/call_answer.h"
#include "api/generation.h"
#include "api/llama/prompts.h"
#include "base/json_fwd.h"

namespace billow::api::llama {

struct CompletionRequest {
  GenerationRequest generation{};  // without a prompt
  std::vector<PromptPieces> prompts{};
  std::optional<Gap> gap{};            // replaces `prompts`
  std::optional<MediaPrompt> media{};  // replaces `prompts`
  size_t n = 1;                        // choices for each prompt
  bool is_list = false;                // the answer is an array
  bool stream = false;
  // fields of the answer, "a/b" for members; empty: all
  std::vector<std::string> response_fields{};
  std::vector<std::string> unknown_fields{};
};

// Both functions throw http::StatusError (400).
CompletionRequest decode_completion(std::string_view body);
CompletionRequest decode_infill(std::string_view body);

// `prompts` are the texts of the request's prompts. REQUIRES: the request outlives the answer.
std::unique_ptr<CallAnswer> completion_answer(Call& call, const CompletionRequest& request,
                                              std::vector<std::string> prompts,
                                              SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::llama
