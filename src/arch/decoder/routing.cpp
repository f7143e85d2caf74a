#include "arch/decoder/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"

namespace billow::arch {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// Applies softmax to all values in place.
void softmax(std::span<float> values) {
  float max = kNever;
  for (const float value : values) max = std::max(max, value);
  float sum = 0.0f;
  for (float& value : values) sum += value = std::exp(value - max);
  for (float& value : values) value /= sum;
}

// Marks a score that is taken. A NaN score counts as -infinity, so that it is chosen last, and only
// once.
constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();

// Returns the index of the largest score that is not taken; the first of equal scores.
size_t best_of(std::span<const float> scores) {
  size_t best = scores.size();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) continue;
    if (best == scores.size() || scores[i] > scores[best]) best = i;
  }
  BILLOW_CHECK(best < scores.size());
  return best;
}

float two_best(std::span<const float> scores) {
  float first = kNever;
  float second = kNever;
  for (const float score : scores) {
    if (score > first) {
      second = first;
      first = score;
    } else if (score > second) {
      second = score;
    }
  }
  return scores.size() == 1 ? first : first + second;
}

// Marks experts outside of the best groups as taken. A group is as good as its two best experts
// together ("noaux_tc", DeepSeek V3 and all later models). `by_best_expert`: as good as its best
// one ("group_limited_greedy", DeepSeek V2). `of_groups` is scratch memory.
void leave_groups_out(const ExpertsStyle& style, bool by_best_expert, std::span<float> scores,
                      std::span<float> of_groups) {
  if (style.n_groups <= 1 || style.n_groups_used >= style.n_groups) return;
  const size_t n = style.n_experts / style.n_groups;
  for (size_t group = 0; group < style.n_groups; ++group) {
    const std::span<const float> of_group = scores.subspan(group * n, n);
    const float score = by_best_expert ? std::ranges::max(of_group) : two_best(of_group);
    of_groups[group] = std::isnan(score) ? kNever : score;  // NaN: a sum of infinities
  }
  for (size_t i = 0; i < style.n_groups_used; ++i) of_groups[best_of(of_groups)] = kTaken;
  for (size_t expert = 0; expert < style.n_groups * n; ++expert)
    if (!std::isnan(of_groups[expert / n])) scores[expert] = kTaken;
}

// Returns the share of the best score among the scores that are close to it and not taken.
float share_among_close(std::span<const float> scores, size_t best) {
  constexpr float kClose = 0.02f;  // relative to the larger one; all models are trained with it
  float sum = 0.0f;
  for (const float score : scores) {
    const float apart = (scores[best] - score) / std::max(std::abs(score), scores[best]);
    if (!std::isnan(score) && !(apart > kClose)) sum += std::exp(score - scores[best]);
  }
  return 1.0f / sum;
}

}  // namespace

size_t routing_work(const ExpertsStyle& style) { return style.n_experts + style.n_groups; }

void choose_experts(const ExpertsStyle& style, std::span<float> logits, const float* bias,
                    std::span<float> work, std::span<Choice> choices) {
  if (style.gating == Gating::kSoftmax) softmax(logits);
  if (style.gating == Gating::kSigmoid)
    for (float& logit : logits) logit = 1.0f / (1.0f + std::exp(-logit));
  const std::span<float> scores = work.first(style.n_experts);
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = bias != nullptr ? logits[i] + bias[i] : logits[i];
    if (std::isnan(scores[i])) scores[i] = kNever;
  }
  // Only DeepSeek V2 has groups with a softmax over all experts and without a bias.
  const bool by_best_expert = style.gating == Gating::kSoftmax && bias == nullptr;
  leave_groups_out(style, by_best_expert, scores, work.last(style.n_groups));
  for (Choice& choice : choices) {
    const size_t best = best_of(scores);
    choice = {static_cast<uint32_t>(best), logits[best]};
    if (style.gating == Gating::kSparseMixer) choice.weight = share_among_close(scores, best);
    scores[best] = kTaken;
  }
  const std::span<float> weights = work.first(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) weights[i] = choices[i].weight;
  if (style.gating == Gating::kSoftmaxOfChosen) softmax(weights);
  if (style.renormalise) {
    constexpr float kMinSum = 1e-20f;
    float sum = 0.0f;
    for (const float weight : weights) sum += weight;
    for (float& weight : weights) weight /= std::max(sum, kMinSum);
  }
  for (size_t i = 0; i < choices.size(); ++i) choices[i].weight = weights[i] * style.scale;
}

}  // namespace billow::arch
