// The repetition penalties of one sequence: which tokens its window (the last tokens of prompt and
// output) holds and how often, and what that does to the logits. A plain value owned by the
// sampler; one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/sampling/options.h"

namespace billow::engine {

class Penalties {
 public:
  // REQUIRES: validated options.
  Penalties(const SamplingOptions& options, int32_t n_vocab);

  // Whether the options change any logit at all; accept and apply do nothing otherwise.
  bool active() const noexcept { return active_; }

  // Appends a token of the prompt or the output to the window. Tokens outside the vocabulary
  // (placeholders of images) are not counted.
  void accept(int32_t token);

  // Changes the logits (n_vocab of them) of the tokens in the window: the repetition penalty of
  // CTRL (Keskar et al. 2019, arXiv 1909.05858, section 4.1) divides a positive logit and
  // multiplies another; then OpenAI's count * frequency_penalty + presence_penalty is subtracted.
  void apply(std::span<float> logits) const noexcept;

 private:
  void forget(int32_t token);

  bool active_ = false;
  float repeat_ = 1.0f;
  float presence_ = 0.0f;
  float frequency_ = 0.0f;
  size_t window_tokens_ = 0;      // 0: unbounded, nothing is ever forgotten
  std::vector<int32_t> recent_;   // a ring once it has window_tokens_ entries
  size_t oldest_ = 0;             // in the full ring
  std::vector<int32_t> counts_;   // per token of the vocabulary: occurrences in the window
  std::vector<int32_t> present_;  // the tokens whose count is not 0, in no particular order
};

}  // namespace billow::engine
