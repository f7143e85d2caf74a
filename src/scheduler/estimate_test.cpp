#include "scheduler/estimate.h"

#include <gtest/gtest.h>

namespace billow::scheduler {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

// EM-2, EM-3: Qwen2.5-0.5B at 16 bits keeps 12,288 bytes per position.
TEST(Estimate, EM_2_3_SeparatesContextFromParallelRequests) {
  const auto qwen = [](size_t n_context) -> ModelCost {
    return {500'000'000, 30'000'000, n_context * 12'288};
  };
  EXPECT_EQ(model_bytes(qwen(2048), 4), 530'000'000 + 8192 * 12'288u);
  for (const size_t n_parallel : {1u, 2u, 8u}) {
    const uint64_t grown =
        model_bytes(qwen(2049), n_parallel) - model_bytes(qwen(2048), n_parallel);
    EXPECT_EQ(grown, 12'288 * n_parallel);
  }
  EXPECT_EQ(model_bytes(qwen(0), 4), 530'000'000u);
  EXPECT_EQ(model_bytes({1, 2, 0}, 64), 3u);
}

TEST(Estimate, Saturates) {
  EXPECT_EQ(model_bytes({kMax, 1, 0}, 1), kMax);
  EXPECT_EQ(model_bytes({0, 0, kMax}, 2), kMax);
  EXPECT_EQ(model_bytes({0, 0, kMax}, 0), 0u);
  EXPECT_EQ(model_bytes({kMax - 5, 2, 3}, 1), kMax);
  EXPECT_EQ(model_bytes({kMax - 5, 2, 2}, 2), kMax);
}

}  // namespace
}  // namespace billow::scheduler
