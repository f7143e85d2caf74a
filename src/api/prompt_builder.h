// From a request to the tokens of its prompt: the conversation put together, rendered by the
// model's template, counted, and shortened by whole turns where it is longer than the context
// (context/truncation.h). Pure functions of the model; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "api/catalog.h"
#include "api/generation.h"
#include "output/format.h"

namespace billow::api {

struct PromptLimits {
  size_t max_context = 0;  // positions that a prompt and its answer may take
  int64_t num_predict = -1;
};

struct BuiltPrompt {
  std::string text;
  std::vector<int32_t> tokens;
  size_t n_full = 0;  // tokens before messages were left out; about, where no template renders them
  size_t n_left_out = 0;                           // messages
  size_t n_renderings = 0;                         // how often the template was rendered
  output::Start start{output::StartState::kText};  // of the answer to it
};

// Whether there is anything to answer: else the model is only to be loaded or ended.
bool asks_nothing(const GenerationRequest& request);

// Called before each piece of the work, at least once for each rendering; what it throws ends the
// work.
using PromptCheck = std::function<void()>;

// Throws http::StatusError: 400 for capabilities that the model lacks, for raw with a template, for
// messages that the template refuses, and for a prompt that is too long, with both numbers; 500 for
// a template of the request that cannot be parsed. Throws Error where nothing can be rendered now.
BuiltPrompt build_prompt(const ServedModel& model, const GenerationRequest& request,
                         const PromptLimits& limits, const PromptCheck& check = {});

// Prompt and answer as a client gets them for its next request: without the BOS that build_prompt
// puts before every prompt, and before such a context, too.
std::vector<int32_t> context_of(const ServedModel& model, std::vector<int32_t> prompt,
                                const std::vector<int32_t>& answer);

// What the request needs, checked before anything else: 400 naming what the model cannot do.
void check_capabilities(const ServedModel& model, const GenerationRequest& request);

}  // namespace billow::api
