#include "kv/cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>

#include "kv/block_table.h"
#include "kv/test_resident.h"

namespace billow::kv {
namespace {

const std::vector<LayerNeed> kNeeds = {{2, 64, 32, 128}, {4, 16, 16, 0}, {2, 64, 32, 128}};

TEST(Layout, GroupsLayersByWindowAndPlacesThemWithoutOverlap) {
  const Layout layout(kNeeds, KvType::kInt16);
  constexpr size_t kHead =
      size_t{64} * (96 + 2) * 2;  // codes of 16 bits, and one scale each for K and V
  ASSERT_EQ(layout.groups.size(), 2u);
  EXPECT_EQ(layout.groups[0].window, 128u);
  EXPECT_EQ(layout.groups[0].block_bytes, 2 * 2 * kHead);
  EXPECT_EQ(layout.groups[1].block_bytes, size_t{4} * 64 * (32 + 2) * 2);
  EXPECT_EQ(layout.layers[2].k_offset(0), 2 * kHead);
  EXPECT_EQ(layout.layers[2].v_offset(1), layout.groups[0].block_bytes - size_t{64} * (32 + 1) * 2);
}

// The codes of 80 values fill three groups of 32 if a byte has two codes.
TEST(Layout, KvInFewBitsHasOneScalePer32Values) {
  const std::vector<LayerNeed> needs = {{2, 64, 80, 0}};
  struct Case {
    KvType type;
    size_t k_codes, v_codes;
  };
  for (const Case& c : {Case{KvType::kQ8_0, 64, 80}, {KvType::kQ4_0, 32, 48}}) {
    const Layout layout(needs, c.type);
    const size_t k = size_t{64} * (c.k_codes + 2 * 2);
    const size_t head = k + size_t{64} * (c.v_codes + 3 * 2);
    EXPECT_EQ(layout.groups[0].block_bytes, 2 * head);
    EXPECT_EQ(layout.layers[0].v_offset(1), head + k);
  }
}

TEST(Layout, KeysWithABiasHaveEightBitsAtLeast) {
  const std::vector<LayerNeed> needs = {{2, 64, 64, 0}, {2, 64, 64, 0, true}};
  const Layout layout(needs, KvType::kQ4_0);
  const size_t few = size_t{64} * (32 + 2 * 2);
  const size_t many = size_t{64} * (64 + 2 * 2);
  EXPECT_EQ(layout.groups[0].block_bytes, 2 * 2 * few + 2 * (many + few));
  EXPECT_EQ(layout.layers[1].v_offset(0), 2 * 2 * few + many);
  EXPECT_EQ(Layout(needs, KvType::kQ8_0).groups[0].block_bytes, size_t{2} * 2 * 2 * many);
}

// EM-3, EM-4: bytes of a position for the shapes of some models. 16-bit KV has codes of 16 bits.
// For each head and position, K and V each have a scale of 16 bits. KV in 8 and in 4 bits has a
// scale for each 32 codes.
TEST(Layout, EM_3_EM_4_BytesOfAPosition) {
  struct Shape {
    size_t n_layers, n_heads, len, f16_bytes;
  };
  for (const Shape& shape : {Shape{24, 2, 64, 12288},  // Qwen2.5-0.5B
                             {30, 3, 64, 23040},       // SmolLM2-135M
                             {28, 2, 128, 28672},      // Qwen2.5-1.5B
                             {16, 8, 64, 32768}}) {    // Llama-3.2-1B
    const auto len = static_cast<uint32_t>(shape.len);
    const std::vector<LayerNeed> needs(shape.n_layers,
                                       {static_cast<uint32_t>(shape.n_heads), len, len, 0});
    const size_t n_rows = shape.n_layers * shape.n_heads * 2;
    EXPECT_EQ(Layout(needs, KvType::kInt16).bytes_for(64, 1) / 64, shape.f16_bytes + n_rows * 2);
    EXPECT_EQ(Layout(needs, KvType::kQ8_0).bytes_for(64, 1) / 64, shape.f16_bytes * 34 / 64);
    EXPECT_EQ(Layout(needs, KvType::kQ4_0).bytes_for(64, 1) / 64, shape.f16_bytes * 18 / 64);
  }
}

TEST(Layout, CountsWholeBlocksAndWindows) {
  const Layout layout(kNeeds, KvType::kInt16);
  const size_t windowed = layout.groups[0].block_bytes;
  const size_t all = layout.groups[1].block_bytes;
  EXPECT_EQ(layout.bytes_for(0, 1), 0u);
  EXPECT_EQ(layout.bytes_for(1, 1), windowed + all);
  EXPECT_EQ(layout.bytes_for(65, 1), 2 * (windowed + all));
  EXPECT_EQ(layout.bytes_for(6400, 1), 4 * windowed + 100 * all);
  EXPECT_EQ(layout.bytes_for(6400, 512), 11 * windowed + 100 * all);
}

// bytes_for() is enough for any way to split a sequence into batches.
TEST(Layout, ASequenceNeverTakesMoreThanBytesFor) {
  for (const size_t n_batch : {1u, 7u, 64u, 100u, 513u}) {
    Cache cache(kNeeds, 8192);
    BlockTable table(cache);
    for (size_t n = 0; n < 3000;) {
      table.evict_before_window(n);
      n += n_batch;
      ASSERT_TRUE(table.grow(n));
      ASSERT_LE(cache.bytes_in_use(), cache.layout().bytes_for(n, n_batch)) << n << " " << n_batch;
    }
  }
}

TEST(BlockTable, GrowsByBlocksAndReturnsThem) {
  Cache cache(kNeeds, 64 * 4);
  {
    BlockTable table(cache);
    ASSERT_TRUE(table.grow(1));
    EXPECT_EQ(table.n_positions(), 64u);
    ASSERT_TRUE(table.grow(65));
    EXPECT_EQ(table.blocks(1).size(), 2u);
    BlockTable moved(std::move(table));
    EXPECT_EQ(cache.pool(0).n_in_use(), 2u);
    BlockTable other(cache);
    EXPECT_FALSE(other.grow(64 * 3));
    EXPECT_TRUE(other.grow(64 * 2));
  }
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

TEST(BlockTable, EvictsOnlyBlocksBeforeTheWindow) {
  Cache cache(kNeeds, 64 * 16);
  BlockTable table(cache);
  ASSERT_TRUE(table.grow(64 * 8));
  // The query at 190 sees 63..190, the one at 191 sees 64..191.
  table.evict_before_window(190);
  EXPECT_NE(table.blocks(0)[0], kNoBlock);
  table.evict_before_window(191);
  EXPECT_EQ(table.blocks(0)[0], kNoBlock);
  EXPECT_NE(table.blocks(0)[1], kNoBlock);
  EXPECT_EQ(cache.pool(0).n_in_use(), 7u);
  EXPECT_EQ(cache.pool(1).n_in_use(), 8u);
}

TEST(BlockTable, AGapFreesItsBlocksAndThoseBeforeTheWindow) {
  Cache cache(kNeeds, 64 * 16);
  BlockTable table(cache);
  ASSERT_TRUE(table.grow(64 * 10));
  table.open_gap(70, 330);
  // Positions 64 to 69 and 330 to 383 stay, each range with its block.
  EXPECT_EQ(cache.pool(1).n_in_use(), 7u);
  EXPECT_NE(table.blocks(1)[1], kNoBlock);
  for (const size_t i : {2u, 3u, 4u}) EXPECT_EQ(table.blocks(1)[i], kNoBlock);
  EXPECT_NE(table.blocks(1)[5], kNoBlock);
  EXPECT_EQ(cache.pool(0).n_in_use(), 5u);
  table.open_gap(70, 640);
  EXPECT_EQ(cache.pool(1).n_in_use(), 2u);
  EXPECT_EQ(cache.pool(0).n_in_use(), 0u);
  ASSERT_TRUE(table.grow(700));
  EXPECT_EQ(cache.pool(1).n_in_use(), 3u);
  table.evict_before_window(699);
  EXPECT_EQ(cache.pool(0).n_in_use(), 1u);
  table.clear();
  EXPECT_EQ(table.gap_end(), 0u);
  EXPECT_EQ(cache.bytes_in_use(), 0u);
}

// The shape of Qwen2.5-0.5B.
TEST(Cache, EM_5_TheEstimateIsTheResidentGrowth) {
  if (!kMemoryIsOurs) GTEST_SKIP() << kWhyNotOurs;
  Cache cache(std::vector<LayerNeed>(24, {2, 64, 64, 0}), 32768);
  const size_t before = status_bytes("RssAnon");
  for (const size_t n : {size_t{1024}, size_t{4096}, size_t{32768}}) {
    BlockTable table(cache);
    ASSERT_TRUE(table.grow(n));
    const size_t block_bytes = cache.layout().groups[0].block_bytes;
    for (const BlockId block : table.blocks(0))
      std::memset(cache.pool(0).base() + block * block_bytes, 1, block_bytes);
    const auto estimate = static_cast<double>(cache.layout().bytes_for(n, 512));
    constexpr double kHugePage = 0x1p21;  // memory becomes resident in huge pages
    EXPECT_NEAR(static_cast<double>(status_bytes("RssAnon") - before), estimate,
                0.05 * estimate + kHugePage)
        << n;
    table.clear();
    cache.trim();
  }
}

}  // namespace
}  // namespace billow::kv
