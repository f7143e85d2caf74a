#include "engine/sampling/filters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace billow::engine {
namespace {

std::vector<Candidate> random_candidates(size_t n, Random& random) {
  std::vector<Candidate> candidates(n);
  const double spread = random.uniform() * 8.0;
  for (size_t i = 0; i < n; ++i) {
    candidates[i] = {static_cast<float>(random.uniform() * spread), static_cast<int32_t>(i)};
  }
  return candidates;
}

std::vector<double> probabilities_of(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  std::vector<double> result;
  for (const Candidate& candidate : candidates) {
    result.push_back(std::exp(static_cast<double>(candidate.logit)));
    total += result.back();
  }
  for (double& p : result) p /= total;
  return result;
}

std::vector<int32_t> tokens_of(const std::vector<Candidate>& candidates) {
  std::vector<int32_t> tokens;
  for (const Candidate& candidate : candidates) tokens.push_back(candidate.token);
  return tokens;
}

// Returns the tokens by ascending key, until enough(sum of their probabilities).
template <typename Key, typename Enough>
std::vector<int32_t> reference_prefix(const std::vector<Candidate>& candidates, Key key,
                                      Enough enough) {
  const std::vector<double> p = probabilities_of(candidates);
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < p.size(); ++i) order.emplace_back(key(p[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<int32_t> kept;
  double sum = 0.0;
  for (const auto& [unused_key, i] : order) {
    kept.push_back(candidates[i].token);
    sum += p[i];
    if (enough(sum)) break;
  }
  return kept;
}

constexpr size_t kSizes[] = {1, 2, 3, 10, 40, 255, 256, 257, 1500, 4000};
constexpr float kShares[] = {0.0f, 0.05f, 0.3f, 0.77f, 0.9f, 0.99f, 0.99999f};

TEST(Filters, TopPKeepsTheFewestBestThatReachP) {
  Random random(11);
  for (const size_t n : kSizes) {
    for (const float p : kShares) {
      std::vector<Candidate> candidates = random_candidates(n, random);
      const auto expected = reference_prefix(
          candidates, [](double q) { return -q; },
          [=](double sum) { return sum >= static_cast<double>(p); });
      keep_top_p(candidates, p);
      ASSERT_EQ(tokens_of(candidates), expected) << n << " " << p;
    }
  }
}

TEST(Filters, TypicalKeepsTheNearestToTheEntropy) {
  Random random(12);
  for (const size_t n : kSizes) {
    for (const float p : kShares) {
      std::vector<Candidate> candidates = random_candidates(n, random);
      double entropy = 0.0;
      for (const double q : probabilities_of(candidates)) entropy -= q * std::log(q);
      const auto expected = reference_prefix(
          candidates, [=](double q) { return std::abs(-std::log(q) - entropy); },
          [=](double sum) { return sum > static_cast<double>(p); });
      keep_typical(candidates, p);
      ASSERT_EQ(tokens_of(candidates), expected) << n << " " << p;
    }
  }
}

TEST(Filters, TypicalMayDropTheBest) {
  // Probabilities 0.4 and six of 0.1: the entropy, 1.75 nats, is nearer to the surprise of 0.1
  // (2.30) than to that of 0.4 (0.92).
  std::vector<Candidate> candidates = {{std::log(4.0f), 0}};
  for (int32_t token = 1; token <= 6; ++token) candidates.push_back({0.0f, token});
  keep_typical(candidates, 0.55f);
  EXPECT_EQ(tokens_of(candidates), (std::vector<int32_t>{1, 2, 3, 4, 5, 6}));
}

TEST(Filters, MinPComparesWithTheMaxProbability) {
  Random random(13);
  for (const size_t n : kSizes) {
    for (const float min_p : kShares) {
      std::vector<Candidate> candidates = random_candidates(n, random);
      const std::vector<double> p = probabilities_of(candidates);
      const double min = *std::max_element(p.begin(), p.end()) * static_cast<double>(min_p);
      std::vector<int32_t> expected;
      for (size_t i = 0; i < n; ++i) {
        if (p[i] >= min) expected.push_back(candidates[i].token);
      }
      keep_min_p(candidates, min_p);
      ASSERT_EQ(tokens_of(candidates), expected) << n << " " << min_p;
    }
  }
}

TEST(Filters, NeutralValuesKeepEverythingAndExtremeOnesKeepOne) {
  Random random(14);
  const std::vector<Candidate> all = random_candidates(300, random);
  const auto best = *std::min_element(all.begin(), all.end(), is_better);
  std::vector<Candidate> candidates = all;
  keep_top_p(candidates, 1.0f);
  keep_typical(candidates, 1.0f);
  keep_min_p(candidates, 0.0f);
  EXPECT_EQ(tokens_of(candidates), tokens_of(all));
  keep_top_p(candidates, 0.0f);
  EXPECT_EQ(tokens_of(candidates), std::vector<int32_t>{best.token});
  candidates = all;
  keep_min_p(candidates, 1.0f);
  EXPECT_EQ(tokens_of(candidates), std::vector<int32_t>{best.token});
  candidates = all;
  keep_typical(candidates, 0.0f);
  EXPECT_EQ(candidates.size(), 1u);
}

TEST(Filters, TopWeightReturnsFalseIfTheWeightIsNotReached) {
  std::vector<Candidate> candidates = {{0.0f, 0}, {0.0f, 1}, {-1.0f, 2}};
  EXPECT_NEAR(total_weight(candidates), 2.0 + std::exp(-1.0), 1e-12);
  EXPECT_FALSE(keep_top_weight(candidates, 3.0));
  EXPECT_EQ(candidates.size(), 3u);
  EXPECT_TRUE(keep_top_weight(candidates, 1.5));
  EXPECT_EQ(tokens_of(candidates), (std::vector<int32_t>{0, 1}));
}

TEST(Filters, DrawFollowsTheSoftmaxAtTheTemperature) {
  const std::vector<Candidate> candidates = {
      {1.0f, 5}, {3.0f, 9}, {-2.0f, 2}, {2.5f, 0}, {0.0f, 7}};
  std::vector<float> weights;
  for (const float temperature : {0.5f, 1.0f, 3.0f}) {
    constexpr int kDraws = 40000;
    Random random(15);
    std::vector<Candidate> scaled = candidates;
    for (Candidate& candidate : scaled) candidate.logit /= temperature;
    const std::vector<double> p = probabilities_of(scaled);
    std::vector<int> counts(candidates.size());
    for (int i = 0; i < kDraws; ++i) {
      const Drawn drawn = draw(candidates, temperature, random, weights);
      ++counts[drawn.index];
      ASSERT_NEAR(drawn.probability, p[drawn.index], 1e-6);
    }
    double chi_square = 0.0;
    for (size_t i = 0; i < p.size(); ++i) {
      const double expected = p[i] * kDraws;
      chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
    }
    EXPECT_LT(chi_square, 20.0)
        << temperature;  // 4 degrees of freedom: 1 in 2000 sequences is above
  }
}

TEST(Filters, DrawHandlesExtremesOfLogitsAndTemperature) {
  constexpr float kMaxFloat = 3.4028235e38f;
  const std::vector<Candidate> candidates = {{-kMaxFloat, 0}, {kMaxFloat, 1}, {0.0f, 2}};
  std::vector<float> weights;
  Random random(16);
  for (const float temperature : {1e-45f, 1e-3f, 1.0f, 1e30f}) {
    for (int i = 0; i < 100; ++i)
      EXPECT_EQ(draw(candidates, temperature, random, weights).index, 1u);
  }
  EXPECT_LT(draw(candidates, kMaxFloat, random, weights).index, 3u);
}

}  // namespace
}  // namespace billow::engine
