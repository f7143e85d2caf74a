#include "nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "cpu/features.h"

namespace billow::nn {
namespace {

using kernels::KvType;

// KV of some sequences in blocks of their own, filled by store_kv, and queries for them.
struct Scene {
  Scene(KvType type, size_t n_kv_heads, size_t n_q_heads_, size_t len, size_t window)
      : n_q_heads(n_q_heads_) {
    layer = {.type = type,
             .block_bytes = 2 * kernels::kv_bytes(type, len) * n_kv_heads,
             .v_offset = kernels::kv_bytes(type, len),
             .head_bytes = 2 * kernels::kv_bytes(type, len),
             .n_heads = n_kv_heads,
             .k_len = len,
             .v_len = len,
             .window = window};
  }
  // A sequence that has `depth` positions, of which the last `n_new` are rows of the batch.
  void add_sequence(size_t depth, size_t n_new) {
    depths.push_back(depth);
    ids.emplace_back();
    for (size_t p = 0; p < depth; p += kernels::kBlockPositions) ids.back().push_back(n_blocks++);
    for (size_t p = depth - n_new; p < depth; ++p) {
      positions.push_back(static_cast<uint32_t>(p));
      sequences.push_back(static_cast<uint32_t>(depths.size() - 1));
    }
  }
  // Attention of all rows, or of only those of [begin, end).
  std::vector<float> attend(int n_threads, size_t begin = 0, size_t end = SIZE_MAX) {
    cpu::ThreadTeam team(n_threads);
    tensor::Arena arena;
    const Compute compute{kernels::select_table(), team, arena};
    std::vector<std::byte> memory(n_blocks * layer.block_bytes + 64);
    auto* base = memory.data();
    while (reinterpret_cast<uintptr_t>(base) % 64 != 0) ++base;
    layer.base = base;
    std::vector<std::span<const uint32_t>> blocks(ids.begin(), ids.end());
    std::mt19937 random(1);
    std::normal_distribution<float> draw;
    for (uint32_t s = 0; s < depths.size(); ++s) {
      const size_t n_cols = layer.n_heads * layer.k_len;
      std::vector<uint32_t> all(depths[s]);
      for (size_t p = 0; p < all.size(); ++p) all[p] = static_cast<uint32_t>(p);
      const std::vector<uint32_t> same(all.size(), s);
      std::vector<float> k(all.size() * n_cols);
      std::vector<float> v(all.size() * n_cols);
      for (float& value : k) value = draw(random);
      for (float& value : v) value = draw(random);
      store_kv(compute, layer, {all, same, blocks}, {k.data(), all.size(), n_cols},
               {v.data(), all.size(), n_cols});
    }
    const size_t n_rows = positions.size();
    std::vector<float> q(n_rows * n_q_heads * layer.k_len);
    for (float& value : q) value = draw(random);
    std::vector<float> out(q.size());
    end = std::min(end, n_rows);
    const size_t n_cols = n_q_heads * layer.k_len;
    attention(compute, layer,
              {std::span(positions).subspan(begin, end - begin),
               std::span(sequences).subspan(begin, end - begin), blocks},
              {q.data() + begin * n_cols, end - begin, n_cols}, {.factor = 0.3f},
              {out.data() + begin * n_cols, end - begin, n_cols});
    return {out.begin() + static_cast<long>(begin * n_cols),
            out.begin() + static_cast<long>(end * n_cols)};
  }

  size_t n_q_heads;
  KvLayer layer;
  uint32_t n_blocks = 0;
  std::vector<size_t> depths;
  std::vector<std::vector<uint32_t>> ids;
  std::vector<uint32_t> positions, sequences;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class AttentionSplit : public testing::TestWithParam<KvType> {};

// One row and many, deep and shallow, with and without a window: the same bits with any number of
// threads, and for each row alone.
TEST_P(AttentionSplit, ChangesNoBit) {
  struct Shape {
    size_t n_kv_heads, n_q_heads, len, window;
  };
  for (const Shape& shape :
       {Shape{2, 14, 64, 0}, {3, 9, 32, 0}, {1, 4, 256, 512}, {1, 40, 16, 0}, {1, 130, 16, 0}}) {
    Scene scene(GetParam(), shape.n_kv_heads, shape.n_q_heads, shape.len, shape.window);
    scene.add_sequence(1, 1);
    scene.add_sequence(1300, 1);
    scene.add_sequence(700, 70);
    scene.add_sequence(900, 3);
    const std::vector<float> expected = scene.attend(1);
    for (const float value : expected) ASSERT_TRUE(std::isfinite(value));
    for (const int n_threads : {2, 3, 8})
      EXPECT_TRUE(same_bits(scene.attend(n_threads), expected)) << n_threads << " threads";
    const size_t n_cols = shape.n_q_heads * shape.len;
    for (const size_t row : {0u, 1u, 2u, 30u, 71u, 72u, 74u}) {
      const auto alone = std::span(expected).subspan(row * n_cols, n_cols);
      EXPECT_TRUE(same_bits(scene.attend(1, row, row + 1), alone)) << "row " << row;
      EXPECT_TRUE(same_bits(scene.attend(2, row, row + 1), alone)) << "row " << row;
    }
    EXPECT_TRUE(
        same_bits(scene.attend(2, 20, 60), std::span(expected).subspan(20 * n_cols, 40 * n_cols)));
  }
}

// What is in the outputs at all: a weighted mean of values that are all alike is that value.
TEST_P(AttentionSplit, AveragesValues) {
  const KvLayer layer{.type = GetParam(),
                      .block_bytes = 2 * kernels::kv_bytes(GetParam(), 16),
                      .v_offset = kernels::kv_bytes(GetParam(), 16),
                      .n_heads = 1,
                      .k_len = 16,
                      .v_len = 16};
  for (const uint32_t depth : {1u, 64u, 257u, 1025u}) {
    cpu::ThreadTeam team(2);
    tensor::Arena arena;
    const Compute compute{kernels::select_table(), team, arena};
    std::vector<std::byte> memory(20 * layer.block_bytes);
    KvLayer placed = layer;
    placed.base = memory.data();
    std::vector<uint32_t> positions, ids, same(depth, 0);
    for (uint32_t p = 0; p < depth; ++p) positions.push_back(p);
    for (uint32_t b = 0; b < 20; ++b) ids.push_back(b);
    const std::vector<std::span<const uint32_t>> blocks = {ids};
    std::vector<float> k(depth * size_t{16}, 0.25f);
    std::vector<float> v(depth * size_t{16}, 2.0f);
    store_kv(compute, placed, {positions, same, blocks}, {k.data(), depth, 16},
             {v.data(), depth, 16});
    std::vector<float> q(16, 1.0f);
    std::vector<float> out(16);
    const uint32_t last = depth - 1;
    attention(compute, placed, {{&last, 1}, {same.data(), 1}, blocks}, {q.data(), 1, 16}, {},
              {out.data(), 1, 16});
    for (const float value : out) EXPECT_NEAR(value, 2.0f, 2e-3) << "depth " << depth;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionSplit, testing::Values(KvType::kInt16, KvType::kQ8_0),
                         [](const testing::TestParamInfo<KvType>& type) {
                           return type.param == KvType::kInt16 ? "F16" : "Q8_0";
                         });

}  // namespace
}  // namespace billow::nn
