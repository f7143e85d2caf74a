#include "kv/prefix_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <random>
#include <utility>

#include "kv/cache.h"
#include "kv/test_texts.h"

namespace billow::kv {
namespace {

std::vector<BlockId> ids(const BlockTable& table, size_t group) {
  return {table.blocks(group).begin(), table.blocks(group).end()};
}

class PrefixIndexTest : public testing::Test {
 protected:
  // Returns a table after `tokens` were evaluated in chunks.
  BlockTable evaluated(const std::vector<int32_t>& tokens, bool and_add = false) {
    BlockTable table(cache);
    for (size_t n = 0; n < tokens.size();) {
      table.evict_before_window(n);
      n = std::min(n + 64, tokens.size());
      EXPECT_TRUE(table.grow(n));
      if (and_add) index.insert(std::span(tokens).first(n), table);
    }
    return table;
  }

  Cache cache{kNeeds, 64 * 64};
  PrefixIndex index{cache};
};

TEST_F(PrefixIndexTest, ReturnsTheMostRecentlyUsedTexts) {
  EXPECT_TRUE(index.latest(5).empty());
  const std::vector<int32_t> beginning = text(128, 1);
  const std::vector<int32_t> first = joined(beginning, text(64, 2));
  const std::vector<int32_t> second = joined(beginning, text(150, 3));
  const BlockTable one = evaluated(first, true);
  const BlockTable other = evaluated(second, true);
  const std::vector<int32_t> whole(second.begin(), second.begin() + 256);
  EXPECT_EQ(index.latest(5), (std::vector<KnownText>{{whole}, {first}}));
  BlockTable again(cache);
  index.match(first, first.size(), again);
  EXPECT_EQ(index.latest(1), (std::vector<KnownText>{{first}}));
  EXPECT_TRUE(index.latest(0).empty());
}

TEST_F(PrefixIndexTest, TextsOfDifferentSaltsShareNothing) {
  const std::vector<int32_t> tokens = text(200, 1);
  const BlockTable none = evaluated(tokens);
  const BlockTable salted = evaluated(tokens);
  index.insert(tokens, none);
  const auto n_shared = [&](uint64_t salt, uint64_t adapter = 0) {
    BlockTable table(cache);
    return index.match(tokens, tokens.size(), table, {.adapter = adapter, .salt = salt}).n_tokens;
  };
  EXPECT_EQ(n_shared(0), 192u);
  EXPECT_EQ(n_shared(7), 0u);
  index.insert(tokens, salted, {.salt = 7});
  EXPECT_EQ(n_shared(7), 192u);
  EXPECT_EQ(n_shared(kMaxSalt), 0u);
  EXPECT_EQ(n_shared(7, 3), 0u);
  BlockTable table(cache);
  index.match(tokens, tokens.size(), table, {.salt = 7});
  EXPECT_EQ(ids(table, 0)[0], ids(salted, 0)[0]);
  const std::vector<KnownText> latest = index.latest(5);
  ASSERT_EQ(latest.size(), 2u);
  EXPECT_EQ(latest[0].salt, 7u);
  EXPECT_EQ(latest[1].salt, 0u);
  EXPECT_EQ(index.forget(tokens, {.salt = 8}).n_tokens, 0u);
  EXPECT_EQ(index.forget(tokens, {.salt = 7}).n_tokens, 192u);
  EXPECT_EQ(n_shared(0), 192u);
}

TEST_F(PrefixIndexTest, SharesWholeBlocksOfTheLongestCommonPrefix) {
  const std::vector<int32_t> beginning = text(300, 1);
  const std::vector<int32_t> first = joined(beginning, text(100, 2));
  const BlockTable table = evaluated(first, true);
  BlockTable other(cache);
  const std::vector<int32_t> second = joined(beginning, text(100, 3));
  EXPECT_EQ(index.match(second, second.size() - 1, other).n_tokens, 256u);
  EXPECT_EQ(ids(other, 0),
            std::vector<BlockId>(table.blocks(0).begin(), table.blocks(0).begin() + 4));
  // The query at 256 sees 157 and later: blocks 2 and 3.
  EXPECT_EQ(other.blocks(1)[1], kNoBlock);
  EXPECT_NE(other.blocks(1)[2], kNoBlock);
  EXPECT_NE(other.blocks(1)[3], kNoBlock);
  EXPECT_EQ(other.n_positions(), 256u);
  ASSERT_TRUE(other.grow(300));
  other.evict_before_window(300);
  EXPECT_EQ(other.blocks(1)[2], kNoBlock);
}

TEST_F(PrefixIndexTest, LeavesATokenToEvaluateAndSharesNothingElse) {
  const std::vector<int32_t> tokens = text(128, 1);
  const BlockTable table = evaluated(tokens, true);
  BlockTable a(cache);
  EXPECT_EQ(index.match(tokens, tokens.size() - 1, a).n_tokens, 64u);
  BlockTable b(cache);
  EXPECT_EQ(index.match(text(128, 2), 127, b).n_tokens, 0u);
  // The same block after another prefix is another entry.
  BlockTable c(cache);
  const std::vector<int32_t> moved(tokens.begin() + 64, tokens.end());
  EXPECT_EQ(index.match(joined(moved, moved), 127, c).n_tokens, 0u);
  EXPECT_EQ(c.n_positions(), 0u);
}

TEST_F(PrefixIndexTest, CachesBlocksThatOnlyTheIndexOwns) {
  const std::vector<int32_t> tokens = text(256, 1);
  const size_t block = cache.pool(0).block_bytes();
  {
    const BlockTable table = evaluated(tokens, true);
    // In the group with a window, block 0 is before the window of position 192.
    EXPECT_EQ(index.cached_bytes(), block);
  }
  EXPECT_EQ(index.cached_bytes(), 8 * block);
  EXPECT_EQ(cache.bytes_in_use(), 8 * block);
  BlockTable other(cache);
  EXPECT_EQ(index.match(tokens, 255, other).n_tokens, 192u);
  EXPECT_EQ(index.cached_bytes(), 3 * block);
}

TEST_F(PrefixIndexTest, SharesNoPrefixWhoseWindowIsMissing) {
  const std::vector<int32_t> tokens = text(640, 1);
  index.insert(tokens,
               evaluated(tokens));  // in the group with a window, only the last blocks exist
  BlockTable whole(cache);
  EXPECT_EQ(index.match(joined(tokens, {7}), 640, whole).n_tokens, 640u);
  BlockTable part(cache);
  EXPECT_EQ(index.match(std::span(tokens).first(400), 399, part).n_tokens, 0u);
}

TEST_F(PrefixIndexTest, EvictsTheOldestTextFromItsEnd) {
  const std::vector<int32_t> a = text(192, 1);
  const std::vector<int32_t> b = text(192, 2);
  (void)evaluated(a, true);
  (void)evaluated(b, true);
  {
    BlockTable user(cache);
    EXPECT_EQ(index.match(joined(a, {7}), 192, user).n_tokens, 192u);  // so b is the oldest
  }
  const auto shared = [&](const std::vector<int32_t>& tokens) {
    PrefixIndex& same = index;
    BlockTable table(cache);
    return same.match(joined(tokens, {7}), 192, table).n_tokens;
  };
  EXPECT_TRUE(index.evict_oldest());
  EXPECT_EQ(index.n_entries(), 5u);
  EXPECT_EQ(shared(b), 128u);
  // Blocks that a sequence owns are not evicted.
  BlockTable user(cache);
  EXPECT_EQ(index.match(joined(a, {7}), 192, user).n_tokens, 192u);
  while (index.evict_oldest()) {
  }
  EXPECT_EQ(shared(b), 0u);
  EXPECT_EQ(index.cached_bytes(), 0u);
  user.clear();
  while (index.evict_oldest()) {
  }
  EXPECT_EQ(index.n_entries(), 0u);
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

// Random texts with shared prefixes: the shared blocks are the ones that were added, and nothing
// leaks.
TEST_F(PrefixIndexTest, SharesOnlyBlocksOfTheSameTokens) {
  std::mt19937 random(5);
  std::vector<std::pair<std::vector<int32_t>, std::vector<BlockId>>> added;
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 6; ++i) texts.push_back(text(64 * (1 + random() % 4), i));
  for (int step = 0; step < 600; ++step) {
    std::vector<int32_t> tokens;
    for (size_t i = 0; i < 1 + random() % 3; ++i) tokens = joined(tokens, texts[random() % 6]);
    BlockTable table(cache);
    const size_t n = index.match(tokens, tokens.size() - 1, table).n_tokens;
    ASSERT_LT(n, tokens.size());
    for (size_t b = 0; b < n / 64; ++b) {
      const bool known = std::ranges::any_of(added, [&](const auto& one) {
        return one.second.size() > b && one.second[b] == table.blocks(0)[b] &&
               std::equal(tokens.begin(), tokens.begin() + static_cast<long>(64 * (b + 1)),
                          one.first.begin());
      });
      ASSERT_TRUE(known) << "step " << step;
    }
    for (size_t at = n; at < tokens.size(); at += 64) {
      table.evict_before_window(at);
      while (!table.grow(at + 64)) ASSERT_TRUE(index.evict_oldest());
      index.insert(std::span(tokens).first(at + 64), table);
    }
    added.emplace_back(tokens, ids(table, 0));
    if (added.size() > 200) added.erase(added.begin());
    if (random() % 5 == 0) (void)index.evict_oldest();
  }
  while (index.evict_oldest()) {
  }
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

// Random texts, and some stay in use. The index counts the cached blocks correctly.
TEST_F(PrefixIndexTest, CountsCachedBlocksCorrectly) {
  std::mt19937 random(9);
  std::vector<std::vector<int32_t>> texts;
  for (unsigned i = 0; i < 6; ++i) texts.push_back(text(64 * (1 + random() % 3), i));
  std::list<BlockTable> in_use;
  const auto recount = [&] {
    size_t n_bytes = 0;
    for (size_t g = 0; g < 2; ++g) {
      std::vector<bool> used(cache.pool(g).max_blocks());
      for (const BlockTable& table : in_use)
        for (const BlockId block : table.blocks(g))
          if (block != kNoBlock) used[block] = true;
      for (BlockId block = 0; block < used.size(); ++block)
        if (cache.pool(g).n_owners(block) > 0 && !used[block])
          n_bytes += cache.pool(g).block_bytes();
    }
    return n_bytes;
  };
  for (int step = 0; step < 1000; ++step) {
    const auto what = random() % 8;
    if (what == 0 && !in_use.empty()) {
      in_use.pop_front();
    } else if (what < 3) {
      const bool was_cached = index.cached_bytes() > 0;
      const size_t before = index.cached_bytes();
      ASSERT_EQ(index.evict_oldest(), was_cached);
      ASSERT_EQ(index.cached_bytes() < before, was_cached);
    } else {
      std::vector<int32_t> tokens = joined(texts[random() % 6], texts[random() % 6]);
      BlockTable table(cache);
      const size_t n = index.match(tokens, tokens.size() - 1, table).n_tokens;
      for (size_t at = n; at < tokens.size(); at += 64) {
        table.evict_before_window(at);
        while (!table.grow(at + 64)) {
          if (!index.evict_oldest()) in_use.pop_front();
        }
        index.insert(std::span(tokens).first(at + 64), table);
      }
      if (random() % 2 == 0) in_use.push_back(std::move(table));
    }
    ASSERT_EQ(index.cached_bytes(), recount()) << "step " << step;
  }
  in_use.clear();
  while (index.evict_oldest()) ASSERT_EQ(index.cached_bytes(), recount());
  EXPECT_EQ(index.n_entries(), 0u);
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

}  // namespace
}  // namespace billow::kv
