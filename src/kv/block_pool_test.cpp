#include "kv/block_pool.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <set>
#include <string>

namespace billow::kv {
namespace {

size_t resident_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6)) * 1024;
  }
  return 0;
}

TEST(BlockPool, NeverHandsOutABlockTwice) {
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

TEST(BlockPool, TakesMemoryOnlyForWhatIsWrittenAndGivesItBack) {
  constexpr size_t kBlock = size_t{1} << 20;
  BlockPool pool(kBlock, 100000);  // 100 GB of address space
  const size_t before = resident_bytes();
  std::vector<BlockId> blocks;
  for (int i = 0; i < 64; ++i) {
    blocks.push_back(pool.take().value());
    std::memset(pool.base() + blocks.back() * kBlock, 1, kBlock);
  }
  EXPECT_GE(resident_bytes(), before + 60 * kBlock);
  for (const BlockId block : blocks) pool.give_back(block);
  pool.trim();
  EXPECT_LE(resident_bytes(), before + 8 * kBlock);
}

}  // namespace
}  // namespace billow::kv
