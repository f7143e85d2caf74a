#include "engine/speculation/pass_cost.h"

#include <gtest/gtest.h>

#include <chrono>
#include <random>

namespace billow::engine {
namespace {

std::chrono::nanoseconds seconds(double value) {
  return std::chrono::nanoseconds(static_cast<int64_t>(value * 1e9));
}

TEST(PassCost, EstimatesUnmeasuredNumbersOfRows) {
  PassCost cost;
  EXPECT_EQ(cost.of(1), 1.0);
  double before = 1.0;
  for (size_t n = 2; n < 600; ++n) {
    EXPECT_GT(cost.of(n), before);
    before = cost.of(n);
  }
  EXPECT_LT(cost.of(8), 8.0);
}

TEST(PassCost, LearnsTheTimesOfPasses) {
  const auto truth = [](size_t n) {
    return n <= 8 ? 1.0 + 0.1 * double(n - 1) : 2.5 + 0.05 * double(n - 8);
  };
  PassCost cost;
  std::mt19937 random(1);
  for (int i = 0; i < 4000; ++i) {
    const size_t n = random() % 3 == 0 ? 1 : 1 + random() % 64;
    const double noise = 0.95 + 0.1 * double(random() % 1000) / 1000.0;
    cost.note(n, seconds(0.004 * truth(n) * noise));
  }
  for (const size_t n : {1u, 2u, 4u, 7u, 14u, 30u, 48u, 64u})
    EXPECT_NEAR(cost.of(n), truth(n), 0.12 * truth(n)) << n;
}

// The first pass of a model reads its weights from the disk.
TEST(PassCost, ForgetsASlowFirstPass) {
  PassCost cost;
  EXPECT_FALSE(cost.is_known());
  cost.note(1, seconds(0.4));
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(cost.is_known());
    cost.note(1, seconds(0.004));
  }
  EXPECT_TRUE(cost.is_known());
  EXPECT_NEAR(cost.seconds(1), 0.004, 0.0001);
}

// One slow pass, for example because of another program, does not spoil the estimates.
TEST(PassCost, OneSlowPassChangesLittle) {
  PassCost cost;
  for (int i = 0; i < 50; ++i) {
    cost.note(1, seconds(0.004));
    cost.note(4, seconds(0.005));
  }
  cost.note(4, seconds(4.0));
  EXPECT_LT(cost.of(4), 1.5);
}

// The machine becomes slower, or the context longer, and only some numbers of rows are measured.
TEST(PassCost, ScalesAllNumbersOfRowsTogether) {
  PassCost cost;
  for (int i = 0; i < 50; ++i) {
    cost.note(1, seconds(0.004));
    cost.note(8, seconds(0.008));
  }
  for (int i = 0; i < 200; ++i) cost.note(8, seconds(0.016));
  for (int i = 0; i < 200; ++i) cost.note(1, seconds(0.008));
  EXPECT_NEAR(cost.of(8), 2.0, 0.6);
}

}  // namespace
}  // namespace billow::engine
