// POST /completion, /completions and /infill in llama-server's form: a request decoded, and its
// answer written, as one object or as a stream of chunks. Decoding is pure; an answer is used on
// the request's thread.
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
  std::optional<Gap> gap{};            // in place of them
  std::optional<MediaPrompt> media{};  // in place of them
  size_t n = 1;                        // choices for each prompt
  bool is_list = false;                // the answer is an array
  bool stream = false;
  std::vector<std::string> response_fields{};  // of the answer, "a/b" for members; empty: all
  std::vector<std::string> unknown_fields{};
};

// Throw http::StatusError (400).
CompletionRequest decode_completion(std::string_view body);
CompletionRequest decode_infill(std::string_view body);

// `prompts`: their texts. The request outlives the answer.
std::unique_ptr<CallAnswer> completion_answer(Call& call, const CompletionRequest& request,
                                              std::vector<std::string> prompts,
                                              SteadyNow now = metrics::Clock::now);

}  // namespace billow::api::llama
