#include "scheduler/estimate.h"

#include <gtest/gtest.h>

namespace billow::scheduler {
namespace {

constexpr uint64_t kMost = UINT64_MAX;

// EM-2, EM-3: Qwen2.5-0.5B at 16 bits keeps 12,288 bytes per position.
TEST(Estimate, EM_2_3_TakesContextAndParallelRequestsApart) {
  const ModelCost qwen = {500'000'000, 30'000'000, 12'288};
  EXPECT_EQ(kv_bytes(qwen, 1024, 1), uint64_t{12} << 20);
  EXPECT_EQ(kv_bytes(qwen, 2048, 4), kv_bytes(qwen, 8192, 1));
  EXPECT_EQ(model_bytes(qwen, 2048, 4), 530'000'000 + 8192 * 12'288u);
  for (const size_t n_parallel : {1u, 2u, 8u}) {
    const uint64_t grown =
        model_bytes(qwen, 2049, n_parallel) - model_bytes(qwen, 2048, n_parallel);
    EXPECT_EQ(grown, 12'288 * n_parallel);
  }
  EXPECT_EQ(model_bytes(qwen, 0, 4), 530'000'000u);
  EXPECT_EQ(model_bytes({1, 2, 0}, 1 << 20, 64), 3u);
}

TEST(Estimate, EndsAtTheGreatestNumber) {
  EXPECT_EQ(kv_bytes({0, 0, kMost}, 2, 1), kMost);
  EXPECT_EQ(kv_bytes({0, 0, 1}, SIZE_MAX, 2), kMost);
  EXPECT_EQ(kv_bytes({0, 0, kMost}, 0, 2), 0u);
  EXPECT_EQ(model_bytes({kMost, 1, 0}, 1, 1), kMost);
  EXPECT_EQ(model_bytes({kMost - 5, 2, 1}, 3, 1), kMost);
  EXPECT_EQ(model_bytes({kMost - 5, 2, 1}, 4, 1), kMost);
}

}  // namespace
}  // namespace billow::scheduler
