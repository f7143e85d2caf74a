#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <set>

#include "kv/test_resident.h"

namespace billow::kv {
namespace {

TEST(BlockPool, NeverAllocatesABlockTwice) {
  BlockPool pool(4096, 50);
  std::mt19937 random(1);
  std::set<BlockId> held;
  for (int step = 0; step < 20000; ++step) {
    if (random() % 2 == 0) {
      const std::optional<BlockId> block = pool.take();
      ASSERT_EQ(block.has_value(), held.size() < 50);
      if (block) {
        ASSERT_TRUE(held.insert(*block).second);
      }
    } else if (!held.empty()) {
      const auto chosen = std::next(held.begin(), static_cast<long>(random() % held.size()));
      pool.give_back(*chosen);
      held.erase(chosen);
    }
    ASSERT_EQ(pool.n_in_use(), held.size());
  }
}

TEST(BlockPool, UsesMemoryOnlyForWrittenBlocksAndReturnsIt) {
  if (!kMemoryIsOurs) GTEST_SKIP() << kWhyNotOurs;
  constexpr size_t kBlock = size_t{1} << 20;
  BlockPool pool(kBlock, 100000);  // 100 GB of address space
  const size_t before = status_bytes("VmRSS");
  std::vector<BlockId> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(pool.take().value());
    std::memset(pool.base() + blocks.back() * kBlock, 1, kBlock);
  }
  EXPECT_GE(status_bytes("VmRSS"), before + 60 * kBlock);
  EXPECT_EQ(pool.n_backed(), 64u);
  for (const BlockId block : blocks) pool.give_back(block);
  pool.trim();
  EXPECT_LE(status_bytes("VmRSS"), before + 8 * kBlock);
  EXPECT_LE(pool.n_backed(), 2u);
}

// Systems without overcommit count all memory that may be written.
TEST(BlockPool, CommitsLittleMoreThanIsInUse) {
  constexpr size_t kBlock = size_t{1} << 20;
  constexpr size_t kMore = 48 * kBlock;  // partly used pieces, and what the test allocates
  BlockPool pool(kBlock, 1000000);
  const size_t before = status_bytes("VmData");
  std::vector<BlockId> blocks;
  for (int i = 0; i < 200; ++i)
    blocks.push_back(pool.take(blocks.empty() ? kNoBlock : blocks.back()).value());
  for (const BlockId block : blocks) std::memset(pool.base() + block * kBlock, 1, kBlock);
  EXPECT_GE(status_bytes("VmData"), before + 200 * kBlock);
  EXPECT_LT(status_bytes("VmData"), before + 200 * kBlock + kMore);
  for (const BlockId block : blocks) pool.give_back(block);
  pool.trim();
  EXPECT_LT(status_bytes("VmData"), before + kMore);
  const BlockId again = pool.take().value();
  std::memset(pool.base() + again * kBlock, 2, kBlock);
}

TEST(BlockPool, FreesABlockOnlyAfterItsLastOwner) {
  BlockPool pool(4096, 2);
  const BlockId block = pool.take().value();
  pool.share(block);
  const BlockId other = pool.take().value();
  pool.give_back(block);
  EXPECT_EQ(pool.n_owners(block), 1u);
  EXPECT_FALSE(pool.take().has_value());
  pool.give_back(block);
  EXPECT_EQ(pool.take(), block);
  EXPECT_EQ(pool.max_in_use(), 2u);
  pool.give_back(other);
}

// Two sequences that grow in turns. When one ends, its memory is freed although the other's stays.
TEST(BlockPool, PlacesBlocksOfOneSequenceTogether) {
  if (!kMemoryIsOurs) GTEST_SKIP() << kWhyNotOurs;
  constexpr size_t kBlock = size_t{300} << 10;
  BlockPool pool(kBlock, 4096);
  std::vector<BlockId> blocks[2];
  const size_t before = status_bytes("VmRSS");
  for (size_t i = 0; i < 200; ++i) {
    std::vector<BlockId>& mine = blocks[i % 2];
    const BlockId block = pool.take(mine.empty() ? kNoBlock : mine.back()).value();
    if (mine.size() % 64 != 0) {
      EXPECT_EQ(block, mine.back() + 1);
    }
    mine.push_back(block);
    std::memset(pool.base() + block * kBlock, 1, kBlock);
  }
  for (const BlockId block : blocks[0]) pool.give_back(block);
  pool.trim();
  // A huge page at each end of an extent may hold a neighbour's block.
  EXPECT_LE(status_bytes("VmRSS"), before + 100 * kBlock + (size_t{16} << 20));
  for (const BlockId block : blocks[1]) {
    for (size_t at = 0; at < kBlock; at += 4096)
      ASSERT_EQ(pool.base()[block * kBlock + at], std::byte{1});
  }
}

// As a window moves on, its old blocks are reused, so memory does not grow.
TEST(BlockPool, ReusesBlocksThatLeftAWindow) {
  BlockPool pool(4096, 4096);
  std::vector<BlockId> window = {pool.take().value()};
  std::set<BlockId> all(window.begin(), window.end());
  for (int i = 0; i < 1000; ++i) {
    window.push_back(pool.take(window.back()).value());
    all.insert(window.back());
    if (window.size() <= 8) continue;
    pool.give_back(window.front());
    window.erase(window.begin());
  }
  EXPECT_LE(all.size(), 9u);
}

}  // namespace
}  // namespace billow::kv
