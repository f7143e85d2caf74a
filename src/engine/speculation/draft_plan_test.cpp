#include "engine/speculation/draft_plan.h"

#include <gtest/gtest.h>

#include <chrono>
#include <numeric>
#include <vector>

namespace billow::engine {
namespace {

using Chances = std::vector<double>;
using Lengths = std::vector<size_t>;

// Returns costs where each additional row costs `slope` times the first.
PassCost cost_with(double slope) {
  PassCost cost;
  for (int round = 0; round < 200; ++round) {
    for (const size_t n : {1u, 2u, 3u, 4u, 6u, 8u, 10u, 14u, 20u, 32u, 48u, 64u}) {
      const double seconds = 0.01 * (1.0 + slope * static_cast<double>(n - 1));
      cost.note(n, std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
    }
  }
  return cost;
}

Lengths plan(const std::vector<Chances>& chances, double slope, size_t max_rows = 32,
             bool evaluates_again = false) {
  const std::vector<std::span<const double>> spans(chances.begin(), chances.end());
  return plan_drafts(spans, {chances.size(), chances.size(), max_rows, evaluates_again},
                     cost_with(slope));
}

Chances falling(double chance, size_t n) {
  Chances out(n);
  double product = 1.0;
  for (double& one : out) one = product *= chance;
  return out;
}

TEST(DraftPlan, ComparesAllNearlyCertainTokens) {
  EXPECT_EQ(plan({falling(0.99, 32)}, 0.1), (Lengths{32}));
  EXPECT_EQ(plan({falling(0.99, 32)}, 0.1, 10), (Lengths{10}));
}

TEST(DraftPlan, ComparesNoTokenThatCostsMoreThanItGains) {
  EXPECT_EQ(plan({falling(0.3, 32)}, 0.4), (Lengths{0}));
  EXPECT_EQ(plan({falling(0.99, 32)}, 1.2), (Lengths{0}));
  EXPECT_EQ(plan({{}}, 0.1), (Lengths{0}));
}

// The best length has the max (1 + sum of chances) / cost.
TEST(DraftPlan, FindsTheBestLength) {
  for (const double chance : {0.5, 0.7, 0.9}) {
    for (const double slope : {0.1, 0.2, 0.3}) {
      const Chances chances = falling(chance, 32);
      size_t best = 0;
      double best_rate = 1.02;
      double sum = 1.0;
      for (size_t n = 1; n <= chances.size(); ++n) {
        sum += chances[n - 1];
        const double rate = sum / (1.0 + slope * static_cast<double>(n));
        if (rate > best_rate) best = n;
        best_rate = std::max(best_rate, rate);
      }
      EXPECT_NEAR(static_cast<double>(plan({chances}, slope).front()), static_cast<double>(best),
                  1.0)
          << chance << " " << slope;
    }
  }
}

// The cost includes rows that are evaluated again. The best length has the max (1 + sum of chances)
// / cost.
TEST(DraftPlan, CountsRowsThatAreEvaluatedAgain) {
  for (const double chance : {0.5, 0.7, 0.9, 0.97}) {
    for (const double slope : {0.1, 0.2, 0.3}) {
      const Chances chances = falling(chance, 32);
      size_t best = 0;
      double best_rate = 1.02;
      for (size_t n = 1; n <= chances.size(); ++n) {
        double n_gained = 0.0;
        double n_again = 0.0;
        double all_before = 1.0;
        for (size_t k = 0; k < n; ++k) {  // exactly k are accepted
          n_gained += static_cast<double>(k) * (all_before - chances[k]);
          n_again += static_cast<double>(k) * (all_before - chances[k]);
          all_before = chances[k];
        }
        n_gained += static_cast<double>(n) * all_before;
        const double rate = (1.0 + n_gained) / (1.0 + slope * (static_cast<double>(n) + n_again));
        if (rate > best_rate) best = n;
        best_rate = std::max(best_rate, rate);
      }
      const size_t found = plan({chances}, slope, 32, true).front();
      EXPECT_NEAR(static_cast<double>(found), static_cast<double>(best), 1.0)
          << chance << " " << slope;
      EXPECT_LE(found, plan({chances}, slope).front());
    }
  }
}

TEST(DraftPlan, DistributesRowsByTheirGain) {
  const Lengths lengths = plan({falling(0.95, 32), falling(0.5, 32), {}, falling(0.95, 32)}, 0.15);
  EXPECT_EQ(lengths[0], lengths[3]);
  EXPECT_GT(lengths[0], lengths[1]);
  EXPECT_EQ(lengths[2], 0u);
  EXPECT_LE(std::accumulate(lengths.begin(), lengths.end(), size_t{0}), 32u);
}

}  // namespace
}  // namespace billow::engine
