// From a request to the tokens of its prompt: the conversation put together, rendered by the
// model's template, counted, and shortened by whole turns where it is longer than the context
// (context/truncation.h). Pure functions of the model; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "api/catalog.h"
#include "api/generation.h"
#include "context/prompt_image.h"
#include "output/format.h"

namespace billow::api {

struct PromptLimits {
  size_t max_context = 0;  // positions that a prompt and its answer may take
  int64_t num_predict = -1;
};

// An image of a prompt, not decoded yet.
struct BuiltImage {
  context::PromptImage place;                // without its PNG file
  std::shared_ptr<const std::string> bytes;  // as the request has them
  size_t index = 0;                          // among all images of the request
};

struct BuiltPrompt {
  std::string text;  // with "[img-0]" for the first image
  std::vector<int32_t> tokens;
  std::vector<BuiltImage> images{};
  // Of a prompt with images: what its tokens are made of, without a BOS that the vocabulary adds.
  std::string text_of_tokens{};
  size_t n_full = 0;  // tokens before messages were left out; about, where no template renders them
  size_t n_left_out = 0;                           // messages
  size_t n_renderings = 0;                         // how often the template was rendered
  output::Start start{output::StartState::kText};  // of the answer to it

  // Positions that it takes: its tokens, and about as many rows as its images have.
  size_t n_positions() const noexcept;
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
