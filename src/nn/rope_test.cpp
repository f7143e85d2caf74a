#include "nn/rope.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <vector>

namespace billow::nn {
namespace {

TEST(Rope, ScoresDependOnlyOnDistance) {
  cpu::ThreadTeam team(1);
  tensor::Arena arena;
  const Compute compute{kernels::select_table(), team, arena};
  for (const auto kind : {kernels::RopeKind::kAdjacent, kernels::RopeKind::kHalves}) {
    const Rope rope({.kind = kind, .n_rot = 32, .base = 10000.0});
    std::vector<double> scores;
    for (const uint32_t start : {0u, 100u, 3000u}) {
      std::vector<float> heads(2 * 48);
      for (size_t i = 0; i < heads.size(); ++i) heads[i] = std::sin(static_cast<float>(i * i));
      const std::vector<uint32_t> positions = {start, start + 7};
      rotate(compute, rope.rotations(compute, positions), {heads.data(), 2, 48}, 48);
      double score = 0;
      for (size_t i = 0; i < 48; ++i)
        score += static_cast<double>(heads[i]) * static_cast<double>(heads[48 + i]);
      scores.push_back(score);
    }
    EXPECT_NEAR(scores[0], scores[1], 1e-4);
    EXPECT_NEAR(scores[0], scores[2], 1e-4);
  }
}

TEST(Rope, LinearScalingDividesPositions) {
  const Rope plain({.n_rot = 64});
  const Rope scaled({.n_rot = 64, .scaling = RopeScaling::kLinear, .factor = 8.0});
  for (size_t i = 0; i < 32; ++i)
    EXPECT_NEAR(scaled.frequencies()[i] * 8.0, plain.frequencies()[i], 1e-12);
}

// Fast pairs keep their frequency; slow pairs are divided by the factor.
TEST(Rope, YarnKeepsFastPairsAndDividesSlowOnes) {
  const Rope plain({.n_rot = 128, .base = 1e6});
  const Rope yarn({.n_rot = 128,
                   .base = 1e6,
                   .scaling = RopeScaling::kYarn,
                   .factor = 4.0,
                   .original_context = 32768});
  EXPECT_DOUBLE_EQ(yarn.frequencies()[0], plain.frequencies()[0]);
  EXPECT_DOUBLE_EQ(yarn.frequencies()[63], plain.frequencies()[63] / 4.0);
  EXPECT_NEAR(yarn.amplitude(), 1.0 + 0.1 * std::log(4.0), 1e-12);
  for (size_t i = 0; i < 64; ++i) {
    EXPECT_LE(yarn.frequencies()[i], plain.frequencies()[i]);
    EXPECT_GE(yarn.frequencies()[i], plain.frequencies()[i] / 4.0);
  }
}

TEST(Rope, DivisorsDivideEachFrequency) {
  const std::vector<float> divisors = {1.0f, 2.0f, 8.0f, 32.0f};
  const Rope plain({.n_rot = 8});
  const Rope divided({.n_rot = 8, .divisors = divisors.data()});
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_DOUBLE_EQ(divided.frequencies()[i] * static_cast<double>(divisors[i]),
                     plain.frequencies()[i]);
  }
}

}  // namespace
}  // namespace billow::nn
