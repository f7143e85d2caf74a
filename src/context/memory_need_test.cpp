#include "context/memory_need.h"

#include <gtest/gtest.h>

#include "context/compaction.h"

namespace billow::context {
namespace {

constexpr uint64_t kMax = UINT64_MAX;

MemoryNeed need() {
  return {.weight_bytes = 1000,
          .scratch = {{512, 10}, {1024, 20}, {3000, 40}},
          .kv_groups = {{100, 0}, {10, 128}},
          .block_positions = 64,
          .n_batch = 64};
}

TEST(MemoryNeed, ScratchIsOfTheFirstStepThatReaches) {
  EXPECT_EQ(need().scratch_bytes(0), 10u);
  EXPECT_EQ(need().scratch_bytes(512), 10u);
  EXPECT_EQ(need().scratch_bytes(513), 20u);
  EXPECT_EQ(need().scratch_bytes(3000), 40u);
  EXPECT_EQ(need().scratch_bytes(5000), 40u);
  EXPECT_EQ(scratch_positions(3000), (std::vector<size_t>{512, 1024, 2048, 3000}));
  EXPECT_EQ(scratch_positions(100), (std::vector<size_t>{100}));
}

TEST(MemoryNeed, KvIsInWholeBlocksAndLimitedByWindows) {
  EXPECT_EQ(need().kv_bytes(0), 0u);
  EXPECT_EQ(need().kv_bytes(1), 110u);
  EXPECT_EQ(need().kv_bytes(65), 220u);
  EXPECT_EQ(need().kv_bytes(6400), 100 * 100 + 4 * 10u);
  EXPECT_EQ(need().kv_bytes(6400, true), 102 * 100 + 4 * 10u);
}

TEST(MemoryNeed, StatesDoNotGrowAndCannotBeShifted) {
  MemoryNeed hybrid = need();
  hybrid.kv_groups = {{100, 0}, {.block_bytes = 1000, .window = 0, .state_stride = 4}};
  EXPECT_TRUE(has_states(hybrid.kv_groups));
  EXPECT_FALSE(has_states(need().kv_groups));
  EXPECT_EQ(hybrid.kv_bytes(1), 1100u);
  EXPECT_EQ(hybrid.kv_bytes(6400), 100 * 100 + 3 * 1000u);
  EXPECT_EQ(hybrid.kv_bytes(6400, true), 100 * 100 + 3 * 1000u);
  hybrid.n_batch = 512;  // two states are kept within the pass
  EXPECT_EQ(hybrid.kv_bytes(6400), 100 * 100 + 4 * 1000u);
  hybrid.kv_groups.back().n_draft_states = 1;
  EXPECT_EQ(hybrid.kv_bytes(1), 2100u);
  EXPECT_EQ(hybrid.kv_bytes(6400), 100 * 100 + 5 * 1000u);
  EXPECT_EQ(possible_policy(OverflowPolicy::kShift, false), OverflowPolicy::kRefill);
  EXPECT_EQ(possible_policy(OverflowPolicy::kShift, true), OverflowPolicy::kShift);
  EXPECT_EQ(possible_policy(OverflowPolicy::kStop, false), OverflowPolicy::kStop);
}

TEST(MemoryNeed, ADraftModelAddsMemoryAndSharesScratch) {
  MemoryNeed draft = need();
  draft.weight_bytes = 7;
  draft.scratch = {{1024, 15}};
  draft.kv_groups = {{5, 1000}};
  const MemoryNeed both = with_draft(need(), draft);
  EXPECT_EQ(both.weight_bytes, need().weight_bytes + 7);
  for (const size_t n : {100u, 1000u, 5000u}) {
    EXPECT_EQ(both.scratch_bytes(n), std::max<uint64_t>(need().scratch_bytes(n), 15));
    EXPECT_EQ(both.kv_bytes(n), need().kv_bytes(n) + draft.kv_bytes(n));
  }
}

TEST(MemoryNeed, MorePositionsNeverNeedLess) {
  for (size_t n = 1; n < 4000; ++n) {
    ASSERT_GE(need().kv_bytes(n), need().kv_bytes(n - 1));
    ASSERT_GE(need().kv_bytes(n, true), need().kv_bytes(n));
    ASSERT_GE(need().scratch_bytes(n), need().scratch_bytes(n - 1));
  }
}

TEST(MemoryNeed, Saturates) {
  MemoryNeed large = need();
  large.kv_groups = {{kMax / 2, 0}, {1, SIZE_MAX}};
  EXPECT_EQ(large.kv_bytes(300), kMax);
  EXPECT_EQ(large.kv_bytes(SIZE_MAX, true), kMax);
}

}  // namespace
}  // namespace billow::context
