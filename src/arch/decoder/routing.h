// Which experts a token goes to, and with which weights. Pure; any thread.
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

// How many floats choose_experts() works with.
size_t routing_work(const ExpertsStyle& style);

// Fills `choices` (style.n_used of them) in descending order of score; of equal scores the lower
// expert comes first. `logits` has style.n_experts values and is overwritten. `bias` is added to
// the scores that experts are chosen by, not to weights; null: none. Groups are ranked by the sum
// of their two best scores. A logit that is not a number is never preferred. `work` has
// routing_work(style) floats, whatever they are.
void choose_experts(const ExpertsStyle& style, std::span<float> logits, const float* bias,
                    std::span<float> work, std::span<Choice> choices);

}  // namespace billow::arch
