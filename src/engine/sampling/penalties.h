// The repetition penalties of one sequence: the tokens in its window (the last tokens of prompt and
// output), their counts, and the effect on the logits. A plain value that the sampler owns. One
// thread at a time.
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

  // Returns whether the options change any logit. If not, accept() and apply() do nothing.
  bool active() const noexcept { return active_; }

  // Adds a token of the prompt or the output to the window. Ignores tokens outside the vocabulary
  // (placeholders of images).
  void accept(int32_t token);

  // Changes the logits (n_vocab of them) of the tokens in the window. First the repetition penalty
  // of CTRL (Keskar et al. 2019, arXiv 1909.05858, section 4.1) divides a positive logit and
  // multiplies another. Then subtracts OpenAI's count * frequency_penalty + presence_penalty.
  void apply(std::span<float> logits) const noexcept;

 private:
  void remove(int32_t token);

  bool active_ = false;
  float repeat_ = 1.0f;
  float presence_ = 0.0f;
  float frequency_ = 0.0f;
  size_t window_tokens_ = 0;      // 0: unlimited
  std::vector<int32_t> recent_;   // a ring when it has window_tokens_ entries
  size_t oldest_ = 0;             // index in the full ring
  std::vector<int32_t> counts_;   // [token]: occurrences in the window
  std::vector<int32_t> present_;  // tokens with a count above 0, unordered
};

}  // namespace billow::engine
