#include "arch/decoder/routing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"

namespace billow::arch {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// In place, over all values.
void softmax(std::span<float> values) {
  float greatest = kNever;
  for (const float value : values) greatest = std::max(greatest, value);
  float sum = 0.0f;
  for (float& value : values) sum += value = std::exp(value - greatest);
  for (float& value : values) value /= sum;
}

// The index of the greatest value that is not taken; the first of equal ones, and the first that is
// not taken where none is a number.
size_t best_of(std::span<const float> scores, const std::vector<bool>& taken) {
  size_t best = scores.size();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (taken[i]) continue;
    if (best == scores.size() || scores[i] > scores[best] || std::isnan(scores[best])) best = i;
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

// Experts outside of the best groups are taken from the start.
void leave_groups_out(const ExpertsStyle& style, std::span<const float> scores,
                      std::vector<bool>& taken) {
  if (style.n_groups <= 1 || style.n_groups_used >= style.n_groups) return;
  const size_t n = style.n_experts / style.n_groups;
  std::vector<float> of_groups;
  for (size_t group = 0; group < style.n_groups; ++group)
    of_groups.push_back(two_best(scores.subspan(group * n, n)));
  std::vector<bool> kept(style.n_groups);
  for (size_t i = 0; i < style.n_groups_used; ++i) kept[best_of(of_groups, kept)] = true;
  for (size_t expert = 0; expert < style.n_groups * n; ++expert) taken[expert] = !kept[expert / n];
}

}  // namespace

void choose_experts(const ExpertsStyle& style, std::span<float> logits, const float* bias,
                    std::span<Choice> choices) {
  if (style.gating == Gating::kSoftmax) softmax(logits);
  if (style.gating == Gating::kSigmoid)
    for (float& logit : logits) logit = 1.0f / (1.0f + std::exp(-logit));
  std::vector<float> scores(logits.begin(), logits.end());
  if (bias != nullptr)
    for (size_t i = 0; i < scores.size(); ++i) scores[i] += bias[i];
  std::vector<bool> taken(scores.size());
  leave_groups_out(style, scores, taken);
  for (Choice& choice : choices) {
    const size_t best = best_of(scores, taken);
    taken[best] = true;
    choice = {static_cast<uint32_t>(best), logits[best]};
  }
  std::vector<float> weights;
  for (const Choice& choice : choices) weights.push_back(choice.weight);
  if (style.gating == Gating::kSoftmaxOfChosen) softmax(weights);
  if (style.weighs_input)
    for (float& weight : weights) weight = 1.0f / (1.0f + std::exp(-weight));
  if (style.renormalise) {
    constexpr float kLeastSum = 1e-20f;
    float sum = 0.0f;
    for (const float weight : weights) sum += weight;
    for (float& weight : weights) weight /= std::max(sum, kLeastSum);
  }
  for (size_t i = 0; i < choices.size(); ++i) choices[i].weight = weights[i] * style.scale;
}

}  // namespace billow::arch
