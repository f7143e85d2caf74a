// Builds the tokens of a request's prompt: renders the conversation with the model's template and
// counts its tokens. If the prompt exceeds the context, it drops whole turns
// (context/truncation.h). Pure functions; thread-safe.
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
  size_t max_context = 0;  // max positions of prompt and answer together
  int64_t num_predict = -1;
};

// An image of a prompt before it is decoded.
struct BuiltImage {
  context::PromptImage place;                // has no PNG file yet
  std::shared_ptr<const std::string> bytes;  // as in the request
  size_t index = 0;                          // among all images of the request
};

struct BuiltPrompt {
  std::string text;  // contains "[img-0]" for the first image
  std::vector<int32_t> tokens;
  std::vector<BuiltImage> images{};
  // For a prompt with images: the text of its tokens, without a BOS that the vocabulary adds.
  std::string text_of_tokens{};
  // tokens before messages were dropped; an estimate if no template can render them
  size_t n_full = 0;
  size_t n_left_out = 0;                           // dropped messages
  size_t n_renderings = 0;                         // how often the template ran
  bool ends_in_thinking = false;                   // the model continues its thinking
  output::Start start{output::StartState::kText};  // where the answer begins in the model's format

  // Returns the positions that the prompt needs: its tokens and an estimate of its images' rows.
  size_t n_positions() const noexcept;
};

// Returns true if there is nothing to answer. Then the request only loads or unloads the model.
bool asks_nothing(const GenerationRequest& request);

// Runs before each piece of the work: at least once per rendering, and between special tokens while
// a conversation is tokenised. Its exception cancels the work.
using PromptCheck = std::function<void()>;

// Throws http::StatusError:
// - 400 if the model lacks a capability or the template refuses the messages
// - 400 if the prompt is too long, with both numbers
// - 500 if the request's template cannot be parsed
// Throws Error if rendering is temporarily impossible.
BuiltPrompt build_prompt(const ServedModel& model, const GenerationRequest& request,
                         const PromptLimits& limits, const PromptCheck& check = {});

// Returns prompt and answer as the context of the client's next request. Omits the BOS, because
// build_prompt() adds one to every prompt, also to such a context.
std::vector<int32_t> context_of(const ServedModel& model, std::vector<int32_t> prompt,
                                const std::vector<int32_t>& answer);

// Checks the request's needs before all other work. Throws 400 with the missing capability.
void check_capabilities(const ServedModel& model, const GenerationRequest& request);

}  // namespace billow::api
