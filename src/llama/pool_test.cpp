#include "llama/pool.h"

#include <gtest/gtest.h>

namespace billow::llama {
namespace {

// 1000 bytes of weights, 100 bytes of scratch, 10 bytes per block of 4 cells.
context::MemoryNeed need() {
  return {.weight_bytes = 1000,
          .scratch = {{1024, 100}},
          .kv_groups = {{.block_bytes = 10}},
          .block_positions = 4,
          .n_batch = 1};
}

Pool pool(uint64_t budget, size_t max_cells = 400) {
  return Pool(need(), max_cells, {.bytes = budget, .version = 1});
}

TEST(Pool, CellsFollowBudget) {
  EXPECT_EQ(pool(1100).cells_of_budget(), 4u) << "at least one block";
  EXPECT_EQ(pool(1119).cells_of_budget(), 4u);
  EXPECT_EQ(pool(1120).cells_of_budget(), 8u);
  EXPECT_EQ(pool(1'000'000).cells_of_budget(), 400u) << "never more than answers can use";
  EXPECT_EQ(pool(UINT64_MAX, 401).cells_of_budget(), 404u) << "whole blocks";
}

TEST(Pool, ReportsHeldBytes) {
  Pool cells = pool(1200);
  EXPECT_EQ(cells.held_bytes(), 1100u);
  cells.began(40, 0);
  EXPECT_EQ(cells.held_bytes(), 1200u);
  EXPECT_EQ(cells.idle_bytes(), 100u);
  EXPECT_EQ(cells.reserve(0, 8, false), Room::kThere);
  EXPECT_EQ(cells.idle_bytes(), 80u);
  cells.began(40, 1150);
  EXPECT_EQ(cells.held_bytes(), 1250u) << "llama-server's number replaces the estimate";
  EXPECT_TRUE(cells.is_above_budget());
  cells.ended();
  EXPECT_EQ(cells.held_bytes(), 1150u);
  EXPECT_FALSE(cells.is_above_budget());
}

TEST(Pool, AnswersShareCells) {
  Pool cells = pool(1200);
  cells.began(40, 0);
  EXPECT_EQ(cells.reserve(0, 30, false), Room::kThere);
  EXPECT_EQ(cells.reserve(30, 40, false), Room::kThere) << "an answer grows";
  EXPECT_EQ(cells.reserve(0, 4, false), Room::kLacking);
  EXPECT_EQ(cells.lacking_bytes(4), 10u);
  cells.give_back(40);
  EXPECT_FALSE(cells.has_answers());
  EXPECT_EQ(cells.reserve(0, 4, false), Room::kThere);
}

TEST(Pool, RestartUsesLargerBudget) {
  Pool cells = pool(1200);
  cells.began(40, 0);
  ASSERT_EQ(cells.reserve(0, 40, false), Room::kThere);
  cells.set_budget({.bytes = 1300, .version = 2});
  EXPECT_EQ(cells.reserve(40, 60, false), Room::kBusy) << "an answer is being written";
  EXPECT_FALSE(cells.needs_restart(0));
  EXPECT_EQ(cells.reserve(40, 60, true), Room::kThere);
  EXPECT_TRUE(cells.needs_restart(0));
  cells.began(cells.cells_of_budget(), 0);
  EXPECT_EQ(cells.n_cells(), 80u);
  EXPECT_FALSE(cells.needs_restart(0));
}

TEST(Pool, DeniesImpossibleCells) {
  Pool cells = pool(1200);
  cells.began(40, 0);
  ASSERT_EQ(cells.reserve(0, 20, false), Room::kThere);
  ASSERT_EQ(cells.reserve(0, 20, false), Room::kThere);
  cells.set_budget({.bytes = 1200, .version = 2, .ceiling = 1200});
  EXPECT_EQ(cells.reserve(20, 24, false), Room::kFull) << "the other answer must end";
  cells.give_back(20);
  EXPECT_EQ(cells.reserve(20, 44, false), Room::kNone);
  EXPECT_EQ(cells.reserve(20, 40, false), Room::kThere);
}

TEST(Pool, ModelWithoutKvNeedsNoMemoryForCells) {
  context::MemoryNeed none = need();
  none.kv_groups.clear();
  Pool cells(none, 400, {.bytes = 1, .version = 1});
  EXPECT_EQ(cells.cells_of_budget(), 400u);
}

}  // namespace
}  // namespace billow::llama
