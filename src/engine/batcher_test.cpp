#include "engine/batcher.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace billow::engine {
namespace {

std::vector<ScheduledChunk> plan_batch(const std::vector<size_t>& rows, const BatchLimits& limits,
                                       size_t first) {
  std::vector<Pending> pending;
  for (const size_t n : rows) pending.push_back({.n_rows = n});
  return engine::plan_batch(pending, limits, first);
}

TEST(Batcher, GeneratingSequencesComeBeforePrompts) {
  const std::vector<size_t> pending = {1000, 1, 0, 1, 30};
  const std::vector<ScheduledChunk> chunks = plan_batch(pending, {.n_rows = 64}, 0);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[0].sequence, 1u);
  EXPECT_EQ(chunks[1].sequence, 3u);
  EXPECT_EQ(chunks[2].sequence, 0u);
  EXPECT_EQ(chunks[2].n_rows, 62u);
}

TEST(Batcher, PromptsHaveASeparateLimit) {
  const std::vector<size_t> pending = {1000, 1, 16, 30};
  const std::vector<ScheduledChunk> chunks =
      plan_batch(pending, {.n_rows = 64, .n_read_rows = 10}, 0);
  ASSERT_EQ(chunks.size(), 3u);
  EXPECT_EQ(chunks[1].sequence, 2u);
  EXPECT_EQ(chunks[2].sequence, 0u);
  EXPECT_EQ(chunks[2].n_rows, 10u);
  EXPECT_EQ(plan_batch(pending, {.n_rows = 64, .n_read_rows = 0}, 0).size(), 2u);
}

TEST(Batcher, BulkPromptsGetWhatOtherPromptsLeave) {
  const std::vector<Pending> pending = {{100, true}, {1, true}, {40, false}, {100, true}};
  for (size_t first = 0; first < pending.size(); ++first) {
    const std::vector<ScheduledChunk> chunks = engine::plan_batch(pending, {.n_rows = 64}, first);
    ASSERT_EQ(chunks.size(), 3u);
    EXPECT_EQ(chunks[0].sequence, 1u) << "a bulk sequence that generates goes first";
    EXPECT_EQ(chunks[1].sequence, 2u);
    EXPECT_EQ(chunks[1].n_rows, 40u);
    EXPECT_EQ(chunks[2].n_rows, 23u);
    EXPECT_TRUE(pending[chunks[2].sequence].is_bulk);
  }
}

TEST(Batcher, EveryPromptIsEvaluatedEventually) {
  std::vector<size_t> pending(20, 100);
  for (size_t step = 0; step < 200; ++step) {
    for (const ScheduledChunk& chunk : plan_batch(pending, {.n_rows = 16}, step))
      pending[chunk.sequence] -= chunk.n_rows;
  }
  for (const size_t rest : pending) EXPECT_EQ(rest, 0u);
}

TEST(Batcher, PacksNoMoreThanPendingRowsAndTheLimit) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<size_t> pending(random() % 9);
    size_t total = 0;
    for (size_t& n : pending) total += n = random() % 4 == 0 ? 1 : random() % 90;
    const size_t n_batch = 1 + random() % 128;
    size_t packed = 0;
    std::vector<int> seen(pending.size());
    for (const ScheduledChunk& chunk : plan_batch(pending, {.n_rows = n_batch}, random())) {
      EXPECT_GE(chunk.n_rows, 1u);
      EXPECT_LE(chunk.n_rows, pending[chunk.sequence]);
      EXPECT_EQ(++seen[chunk.sequence], 1);
      packed += chunk.n_rows;
    }
    EXPECT_EQ(packed, std::min(total, n_batch));
  }
}

}  // namespace
}  // namespace billow::engine
