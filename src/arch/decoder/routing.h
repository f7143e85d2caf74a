// Chooses the experts of a token and their weights. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "arch/decoder/style.h"

namespace billow::arch {

struct Choice {
  uint32_t expert = 0;
  float weight = 0.0f;
};

// Returns the number of floats that choose_experts() needs as scratch memory.
size_t routing_work(const ExpertsStyle& style);

// Fills `choices` (style.n_used of them) in descending order of score; of equal scores the lower
// expert comes first. Overwrites `logits`, which has style.n_experts values. `bias` is added to the
// scores that select experts, but not to weights; it may be null. The rank of a group is the sum of
// its two best scores. A NaN logit is never preferred. `work` is scratch memory of
// routing_work(style) floats.
void choose_experts(const ExpertsStyle& style, std::span<float> logits, const float* bias,
                    std::span<float> work, std::span<Choice> choices);

}  // namespace billow::arch
