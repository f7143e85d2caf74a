// From a request to the tokens of its prompt: the conversation put together, rendered by the
// model's template, counted, and shortened by whole messages where it is longer than the context.
// Pure functions of the model; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "api/answer_scanner.h"
#include "api/catalog.h"
#include "api/generation.h"

namespace billow::api {

struct PromptLimits {
  size_t max_context = 0;  // positions that a prompt and its answer may take
  int64_t num_predict = -1;
};

struct BuiltPrompt {
  std::string text;
  std::vector<int32_t> tokens;
  size_t n_full = 0;  // tokens before messages were left out
  size_t n_left_out = 0;
  AnswerShape shape;  // of the answer to it
};

// Whether there is anything to answer: else the model is only to be loaded or ended.
bool asks_nothing(const GenerationRequest& request);

// Throws http::StatusError: 400 for capabilities that the model lacks, for raw with a template, and
// for a prompt that is too long, with both numbers; 500 for a template that fails.
BuiltPrompt build_prompt(const ServedModel& model, const GenerationRequest& request,
                         const PromptLimits& limits);

// What the request needs, checked before anything else: 400 naming what the model cannot do.
void check_capabilities(const ServedModel& model, const GenerationRequest& request);

}  // namespace billow::api
