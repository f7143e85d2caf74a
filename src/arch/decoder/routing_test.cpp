#include "arch/decoder/routing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <vector>

namespace billow::arch {
namespace {

std::vector<Choice> choose(const ExpertsStyle& style, std::vector<float> logits,
                           const std::vector<float>& bias = {}) {
  std::vector<Choice> choices(style.n_used);
  std::vector<float> work(routing_work(style), 7.0f);
  choose_experts(style, logits, bias.empty() ? nullptr : bias.data(), work, choices);
  return choices;
}

std::vector<uint32_t> experts_of(const std::vector<Choice>& choices) {
  std::vector<uint32_t> experts;
  for (const Choice& choice : choices) experts.push_back(choice.expert);
  return experts;
}

TEST(Routing, TakesTheBestInOrderWithTheLowerOfEqualScoresFirst) {
  const ExpertsStyle style = {.n_experts = 5, .n_used = 3};
  EXPECT_EQ(experts_of(choose(style, {1, 3, 2, 3, 0})), (std::vector<uint32_t>{1, 3, 2}));
  EXPECT_EQ(experts_of(choose(style, {0, 0, 0, 0, 0})), (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Routing, WeighsBySoftmaxOverAllOrOverTheChosen) {
  const float e = std::exp(1.0f);
  ExpertsStyle style = {.n_experts = 3, .n_used = 2};
  std::vector<Choice> choices = choose(style, {1, 0, 0});
  EXPECT_NEAR(choices[0].weight, e / (e + 2), 1e-6);
  EXPECT_NEAR(choices[1].weight, 1 / (e + 2), 1e-6);
  style.renormalise = true;
  style.scale = 2.5f;
  choices = choose(style, {1, 0, 0});
  EXPECT_NEAR(choices[0].weight, 2.5f * e / (e + 1), 1e-6);
  style = {.n_experts = 3, .n_used = 2, .gating = Gating::kSoftmaxOfChosen};
  choices = choose(style, {1, 0, 0});
  EXPECT_NEAR(choices[0].weight + choices[1].weight, 1.0f, 1e-6);
  EXPECT_NEAR(choices[0].weight, e / (e + 1), 1e-6);
}

// Two logits are close if they differ by at most 0.02 of the larger one. Taken logits do not count.
TEST(Routing, WeighsAmongTheExpertsCloseToTheBest) {
  const ExpertsStyle style = {.n_experts = 4, .n_used = 2, .gating = Gating::kSparseMixer};
  std::vector<Choice> choices = choose(style, {1.0f, 0.99f, 0.5f, -1.0f});
  EXPECT_EQ(experts_of(choices), (std::vector<uint32_t>{0, 1}));
  EXPECT_NEAR(choices[0].weight, 1 / (1 + std::exp(-0.01f)), 1e-6);
  EXPECT_EQ(choices[1].weight, 1.0f);
  choices = choose(style, {-1.0f, -1.01f, -1.5f, -1.0f});
  EXPECT_EQ(experts_of(choices), (std::vector<uint32_t>{0, 3}));
  EXPECT_NEAR(choices[0].weight, 1 / (2 + std::exp(-0.01f)), 1e-6);
  EXPECT_NEAR(choices[1].weight, 1 / (1 + std::exp(-0.01f)), 1e-6);
}

// A bias affects the choice, but not the weight.
TEST(Routing, AddsTheBiasToScoresOnly) {
  const ExpertsStyle style = {.n_experts = 3, .n_used = 1, .gating = Gating::kSigmoid};
  const std::vector<Choice> choices = choose(style, {2, 0, 0}, {0, 0, 1});
  EXPECT_EQ(choices[0].expert, 2u);
  EXPECT_NEAR(choices[0].weight, 0.5f, 1e-6);
}

// The first group has the best expert; the second has the better pair.
TEST(Routing, TakesExpertsOfTheBestGroupsOnly) {
  const ExpertsStyle style = {.n_experts = 4,
                              .n_used = 2,
                              .gating = Gating::kSoftmaxOfChosen,
                              .n_groups = 2,
                              .n_groups_used = 1};
  EXPECT_EQ(experts_of(choose(style, {5, 0, 3, 4})), (std::vector<uint32_t>{3, 2}));
}

// With a softmax and no bias (DeepSeek V2), the group of the best expert wins. A bias changes that.
TEST(Routing, TakesTheGroupOfTheBestExpertWithASoftmax) {
  const ExpertsStyle style = {
      .n_experts = 4, .n_used = 2, .gating = Gating::kSoftmax, .n_groups = 2, .n_groups_used = 1};
  const std::vector<float> logits = {5, 0, 4.8f, 4.7f};
  EXPECT_EQ(experts_of(choose(style, logits)), (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(experts_of(choose(style, logits, {0, 0, 0, 0})), (std::vector<uint32_t>{2, 3}));
}

TEST(Routing, AlwaysTakesDifferentExperts) {
  std::mt19937 random(1);
  std::normal_distribution<float> draw;
  for (int i = 0; i < 2000; ++i) {
    ExpertsStyle style = {.n_experts = 1 + random() % 40};
    style.n_used = 1 + random() % style.n_experts;
    style.gating = static_cast<Gating>(random() % 4);
    style.renormalise = random() % 2 == 0;
    if (style.n_experts % 4 == 0 && style.n_used <= style.n_experts / 2) {
      style.n_groups = 4;
      style.n_groups_used = 2;
    }
    std::vector<float> logits(style.n_experts);
    for (float& logit : logits) {
      const auto kind = random() % 20;
      logit = kind == 0   ? std::nanf("")
              : kind == 1 ? std::numeric_limits<float>::infinity()
              : kind == 2 ? -std::numeric_limits<float>::infinity()
                          : draw(random);
    }
    std::set<uint32_t> seen;
    for (const Choice& choice : choose(style, logits)) {
      EXPECT_LT(choice.expert, style.n_experts);
      seen.insert(choice.expert);
    }
    EXPECT_EQ(seen.size(), style.n_used);
  }
}

}  // namespace
}  // namespace billow::arch
