// Blocks of recurrent states: which exist while a sequence grows, and which are found again.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/test_folder.h"
#include "kv/block_table.h"
#include "kv/cache.h"
#include "kv/prefix_index.h"
#include "kv/state_blocks.h"

namespace billow::kv {
namespace {

// A layer of keys and values, and a layer whose state is as large as four blocks of the first.
std::vector<LayerNeed> needs() {
  const size_t kv_bytes = Layout({{1, 16, 16, 0}}, KvType::kF32).block_bytes();
  return {{1, 16, 16, 0}, {.state_floats = kv_bytes}};
}

TEST(StateLayout, StatesHaveASeparateGroup) {
  const Layout layout(needs(), KvType::kF32);
  ASSERT_EQ(layout.groups.size(), 2u);
  EXPECT_EQ(layout.states, 1u);
  EXPECT_EQ(layout.groups[1].block_bytes, 4 * layout.groups[0].block_bytes);
  EXPECT_EQ(layout.groups[1].state_stride, 4u);
  EXPECT_EQ(layout.block_bytes(), layout.groups[0].block_bytes);
  EXPECT_EQ(layout.state_bytes(), layout.groups[1].block_bytes);
}

TEST(StateLayout, KeepsSmallStatesInEachBlockAndLargeOnesEvery32) {
  EXPECT_EQ(Layout({{1, 16, 16, 0}, {.state_floats = 1}}, KvType::kF32).groups[1].state_stride, 1u);
  EXPECT_EQ(
      Layout({{1, 16, 16, 0}, {.state_floats = 1 << 24}}, KvType::kF32).groups[1].state_stride,
      32u);
  const Layout alone({{.state_floats = 100}}, KvType::kF32);
  ASSERT_EQ(alone.groups.size(), 1u);
  EXPECT_EQ(alone.groups[0].state_stride, 32u);
}

TEST(StateBlocks, KeepsAStateAtStridesAtTheJunctionAndAtTheEnd) {
  EXPECT_TRUE(keeps_state(3, 256, 4, {}));
  EXPECT_FALSE(keeps_state(3, 255, 4, {}));  // not a whole block
  EXPECT_FALSE(keeps_state(2, 256, 4, {}));
  EXPECT_TRUE(keeps_state(2, 256, 4, {.junction = 3}));
  EXPECT_TRUE(keeps_state(0, 100, 4, {.ends = true}));
  EXPECT_FALSE(keeps_state(0, 200, 4, {.ends = true}));
  // The whole text again resumes after the block before the last token.
  EXPECT_TRUE(keeps_state(0, 128, 4, {.ends = true}));
  EXPECT_TRUE(keeps_state(1, 128, 4, {.ends = true}));
}

TEST(StateBlocks, APassWritesItsLastBlockAndTheLatestKeptOnes) {
  EXPECT_EQ(written_states(0, 10, 4, 1, {}), (std::vector<size_t>{0}));
  EXPECT_EQ(written_states(0, 512, 1, 8, {}), (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(written_states(0, 520, 4, 3, {}), (std::vector<size_t>{3, 7, 8}));
  EXPECT_EQ(written_states(0, 520, 4, 1, {}), (std::vector<size_t>{7, 8}));
  EXPECT_EQ(written_states(100, 300, 4, 1, {.ends = true}), (std::vector<size_t>{3, 4}));
}

class StateTables : public testing::Test {
 protected:
  // Evaluates tokens up to n in passes of at most n_batch.
  void evaluate(BlockTable& table, size_t& n_held, size_t n, size_t n_batch, TextMarks marks) {
    while (n_held < n) {
      table.evict_before_window(n_held);
      const size_t end = std::min(n_held + n_batch, n);
      marks.ends = end == n;
      ASSERT_TRUE(table.grow(end));
      ASSERT_TRUE(table.grow_states(n_held, end, marks));
      EXPECT_LE(n_states(table), 2 + context::max_kept_states(4, kBlockPositions, n_batch));
      EXPECT_NE(table.blocks(1)[(end - 1) / kBlockPositions], kNoBlock);
      n_held = end;
    }
  }
  static size_t n_states(const BlockTable& table) {
    return static_cast<size_t>(
        std::ranges::count_if(table.blocks(1), [](BlockId id) { return id != kNoBlock; }));
  }

  Cache cache{needs(), 64 * 64, KvType::kF32};
  PrefixIndex index{cache};
};

// A sequence stays within its granted memory for any split into batches, and the state that it
// resumes from always exists.
TEST_F(StateTables, NoSequenceHoldsMoreThanItIsGranted) {
  std::mt19937 random(3);
  for (size_t round = 0; round < 200; ++round) {
    BlockTable table(cache);
    size_t n_held = 0;
    while (n_held < 1500) {
      const size_t n_batch = 1 + random() % 600;
      const size_t end = n_held + 1 + random() % n_batch;
      table.evict_before_window(n_held);
      ASSERT_TRUE(table.grow(end));
      const TextMarks marks = {.junction = random() % 24, .ends = random() % 2 == 0};
      ASSERT_TRUE(table.grow_states(n_held, end, marks));
      EXPECT_LE(n_states(table) * cache.layout().groups[1].block_bytes,
                context::kv_bytes(std::span(cache.layout().groups).last(1), kBlockPositions, end,
                                  n_batch, false));
      n_held = end;
    }
  }
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

TEST_F(StateTables, AnswersHoldTwoStatesWhileTheyAreGenerated) {
  BlockTable table(cache);
  size_t n_held = 0;
  evaluate(table, n_held, 70, 512, {});
  evaluate(table, n_held, 1000, 1, {.ends = true});
  EXPECT_LE(n_states(table), 2u);
  EXPECT_LE(cache.pool(1).n_backed(), 4u);  // blocks are reused
}

TEST_F(StateTables, FindsATextAtItsLastKeptState) {
  std::vector<int32_t> tokens(700);
  std::iota(tokens.begin(), tokens.end(), 0);
  BlockTable table(cache);
  size_t n_held = 0;
  evaluate(table, n_held, 700, 128, {});
  index.insert(tokens, table, {.ends = true});
  BlockTable again(cache);
  EXPECT_EQ(index.match(tokens, 699, again).n_tokens, 640u);  // the last whole block
  EXPECT_EQ(n_states(again), 1u);
  BlockTable part(cache);
  const PrefixIndex::Shared shared = index.match(std::span(tokens).first(500), 499, part);
  EXPECT_EQ(shared.n_tokens, 0u);  // of the states before 500, none was kept
  EXPECT_EQ(shared.n_known_blocks, 7u);
}

// A model with states alone. An entry without a state would never be evicted.
TEST(StateIndex, AddsNoEntryWithoutAState) {
  Cache cache({{.state_floats = 16}}, 64 * 64, KvType::kF32);
  PrefixIndex index(cache);
  std::vector<int32_t> tokens(300);
  std::iota(tokens.begin(), tokens.end(), 0);
  BlockTable table(cache);
  ASSERT_TRUE(table.grow(300) && table.grow_states(0, 300, {}));
  index.insert(tokens, table);
  EXPECT_EQ(index.n_entries(), 0u);
  index.insert(std::span(tokens).first(256), table, {.ends = true});
  EXPECT_EQ(index.n_entries(), 0u);  // the state after 256 was not kept
  table.clear();
  ASSERT_TRUE(table.grow(300) && table.grow_states(0, 300, {.ends = true}));
  index.insert(tokens, table, {.ends = true});
  EXPECT_EQ(index.n_entries(), 4u);
  table.clear();
  while (index.evict_oldest()) {
  }
  EXPECT_EQ(index.n_entries(), 0u);
}

TEST_F(StateTables, TheSecondTextWithASharedPrefixKeepsAStateAfterIt) {
  std::vector<int32_t> first(700);
  std::iota(first.begin(), first.end(), 0);
  BlockTable table(cache);
  size_t n_held = 0;
  evaluate(table, n_held, 700, 512, {});
  index.insert(first, table, {.ends = true});
  std::vector<int32_t> second(first.begin(), first.begin() + 200);
  for (int32_t i = 0; i < 200; ++i) second.push_back(5000 + i);
  BlockTable other(cache);
  const PrefixIndex::Shared shared = index.match(second, 399, other);
  EXPECT_EQ(shared.n_tokens, 0u);
  ASSERT_EQ(shared.n_known_blocks, 3u);
  n_held = 0;
  evaluate(other, n_held, 192, 512, {.junction = 3});  // a pass ends there
  index.insert(std::span(second).first(192), other, {.junction = 3});
  evaluate(other, n_held, 400, 512, {.junction = 3});
  index.insert(second, other, {.junction = 3, .ends = true});
  std::vector<int32_t> third(first.begin(), first.begin() + 200);
  third.push_back(9000);
  BlockTable last(cache);
  EXPECT_EQ(index.match(third, 200, last).n_tokens, 192u);
}

// A draft has an additional block, which replaces the text's own block only if the whole draft is
// right.
TEST_F(StateTables, AcceptsADraftAsAWholeOrNotAtAll) {
  BlockTable table(cache);
  ASSERT_TRUE(table.grow(100) && table.grow_states(0, 70, {.ends = true}));
  EXPECT_EQ(table.settle_draft(70), 70u);  // no draft
  const std::vector<BlockId> before(table.blocks(1).begin(), table.blocks(1).end());
  ASSERT_TRUE(table.grow_draft(70, 75));
  EXPECT_EQ(table.draft().begin, 70u);
  EXPECT_EQ(table.draft().end, 75u);
  const BlockId drafted = table.draft().block;
  EXPECT_EQ(std::ranges::count(before, drafted), 0);
  EXPECT_EQ(table.settle_draft(74), 70u);
  EXPECT_TRUE(std::ranges::equal(table.blocks(1), before));
  ASSERT_TRUE(table.grow_draft(70, 75));
  EXPECT_EQ(table.draft().block, drafted);  // the block is used again
  EXPECT_EQ(table.settle_draft(75), 75u);
  EXPECT_EQ(table.blocks(1)[1], drafted);
  EXPECT_EQ(table.draft().end, 0u);
  // After a whole block, the state there stays, and the state after the draft is in the next block.
  ASSERT_TRUE(table.grow(140) && table.grow_states(75, 128, {.ends = true}));
  ASSERT_TRUE(table.grow_draft(128, 140));
  const BlockId whole = table.blocks(1)[1];
  EXPECT_EQ(table.settle_draft(140), 140u);
  EXPECT_EQ(table.blocks(1)[1], whole);
  EXPECT_NE(table.blocks(1)[2], kNoBlock);
  table.clear();
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

TEST(DraftStates, DoNothingForModelsWithoutStates) {
  Cache cache({{1, 16, 16, 0}}, 64 * 64, KvType::kF32);
  BlockTable table(cache);
  ASSERT_TRUE(table.grow(300) && table.grow_draft(100, 300));
  EXPECT_EQ(table.settle_draft(200), 200u);
}

// Only each fourth entry has a state, so a text takes less than half of what it would otherwise.
TEST_F(StateTables, ATextIsOnDiskIfItsBlocksFitIntoAFile) {
  const TestFolder folder;
  constexpr size_t kBlocks = 20;
  const uint64_t block = cache.layout().groups[0].block_bytes;
  std::string why;
  auto file = PrefixFile::open({.folder = folder.file("prefixes"),
                                .max_bytes = 2 * 60 * block,
                                .name = "m",
                                .contents = "/proc/self/exe\nmodel"},
                               cache.layout(), &why);
  ASSERT_NE(file, nullptr) << why;
  index.attach(std::move(file));
  std::vector<int32_t> tokens(kBlocks * kBlockPositions);
  std::iota(tokens.begin(), tokens.end(), 1);
  BlockTable table(cache);
  size_t n_held = 0;
  for (size_t n = 1; n <= kBlocks; ++n) {
    evaluate(table, n_held, n * kBlockPositions, kBlockPositions, {});
    index.insert(std::span(tokens).first(n_held), table, {});
  }
  while (index.has_to_write()) index.write_one();
  EXPECT_EQ(index.on_disk(tokens).n_tokens, tokens.size());
}

}  // namespace
}  // namespace billow::kv
