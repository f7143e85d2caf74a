#include "nn/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "cpu/features.h"
#include "kernels/kv_names.h"
#include "nn/test_data.h"

namespace billow::nn {
namespace {

using kernels::KvType;

// KV of some sequences in separate blocks, filled by store_kv, and queries for them.
struct Scene {
  Scene(KvType type, size_t n_kv_heads, size_t n_q_heads_, size_t len, size_t window)
      : n_q_heads(n_q_heads_) {
    layer = {.types = type,
             .block_bytes = 2 * kernels::kv_bytes(type, len) * n_kv_heads,
             .v_offset = kernels::kv_bytes(type, len),
             .head_bytes = 2 * kernels::kv_bytes(type, len),
             .n_heads = n_kv_heads,
             .k_len = len,
             .v_len = len,
             .window = window};
  }
  // Adds a sequence of `depth` positions. The last `n_new` positions are rows of the batch.
  void add_sequence(size_t depth, size_t n_new) {
    depths.push_back(depth);
    ids.emplace_back();
    for (size_t p = 0; p < depth; p += kernels::kBlockPositions) ids.back().push_back(n_blocks++);
    for (size_t p = depth - n_new; p < depth; ++p) {
      positions.push_back(static_cast<uint32_t>(p));
      sequences.push_back(static_cast<uint32_t>(depths.size() - 1));
    }
  }
  // Computes attention of all rows, or only of rows [begin, end).
  std::vector<float> attend(int n_threads, size_t begin = 0, size_t end = SIZE_MAX) {
    cpu::ThreadTeam team(n_threads);
    tensor::Arena arena;
    const Compute compute{.kernels = kernels, .team = team, .arena = arena, .kinds = kinds};
    std::vector<std::byte> memory(n_blocks * layer.block_bytes + 64);
    auto* base = memory.data();
    while (reinterpret_cast<uintptr_t>(base) % 64 != 0) ++base;
    layer.base = base;
    std::vector<std::span<const uint32_t>> blocks(ids.begin(), ids.end());
    draw_values();
    for (uint32_t s = 0; s < depths.size(); ++s) {
      const size_t n_cols = layer.n_heads * layer.k_len;
      std::vector<uint32_t> all(depths[s]);
      for (size_t p = 0; p < all.size(); ++p) all[p] = static_cast<uint32_t>(p);
      const std::vector<uint32_t> same(all.size(), s);
      store_kv(compute, layer, {all, same, blocks}, {keys[s].data(), all.size(), n_cols},
               {values[s].data(), all.size(), n_cols});
    }
    const size_t n_rows = positions.size();
    std::vector<float> out(q.size());
    end = std::min(end, n_rows);
    const size_t n_cols = n_q_heads * layer.k_len;
    const auto rows_of = [&](std::vector<float>& x) {
      return tensor::Matrix{x.data() + begin * n_cols, end - begin, n_cols};
    };
    attention(compute, layer,
              {std::span(positions).subspan(begin, end - begin),
               std::span(sequences).subspan(begin, end - begin), blocks, gaps},
              {rows_of(q), rows_of(q_before)}, {.factor = kFactor, .reads_in_bf16 = true},
              rows_of(out));
    return {out.begin() + static_cast<long>(begin * n_cols),
            out.begin() + static_cast<long>(end * n_cols)};
  }

  // Draws keys and values of all sequences, [position][n_heads * len], and queries; the same each
  // time.
  void draw_values() {
    unsigned seed = 0;
    const auto drawn = [&](size_t n) { return gaussian(n, ++seed); };
    keys.clear();
    values.clear();
    for (const size_t depth : depths) {
      keys.push_back(drawn(depth * layer.n_heads * layer.k_len));
      values.push_back(drawn(depth * layer.n_heads * layer.v_len));
    }
    q = drawn(positions.size() * n_q_heads * layer.k_len);
    q_before = drawn(q.size());
  }

  // Computes a row's attention by its definition. REQUIRES: attend() was called.
  std::vector<float> plainly(size_t row) const {
    const size_t s = sequences[row];
    const size_t len = layer.k_len;
    const Gap gap = gaps.empty() ? Gap{} : gaps[s];
    std::vector<float> out;
    for (size_t head = 0; head < n_q_heads; ++head) {
      const size_t kv_head = head / (n_q_heads / layer.n_heads);
      double sum = 0.0;
      std::vector<double> mean(len);
      for (size_t p = 0; p <= positions[row]; ++p) {
        const bool before = gap.n() > 0 && p < gap.begin;
        if (gap.n() > 0 && p >= gap.begin && p < gap.end) continue;
        if (layer.window != 0 && (before || p + layer.window <= positions[row])) continue;
        const size_t closed = positions[row] - gap.n();
        if (layer.chunk != 0 && before) continue;
        if (layer.chunk != 0 &&
            p - (p < gap.end ? size_t{0} : gap.n()) < closed / layer.chunk * layer.chunk)
          continue;
        const std::vector<float>& queries = before ? q_before : q;
        const size_t at = (p * layer.n_heads + kv_head) * len;
        double product = 0.0;
        for (size_t i = 0; i < len; ++i)
          product += double{queries[(row * n_q_heads + head) * len + i]} * double{keys[s][at + i]};
        const double weight = std::exp(double{kFactor} * product);
        sum += weight;
        for (size_t i = 0; i < len; ++i) mean[i] += weight * double{values[s][at + i]};
      }
      for (const double value : mean) out.push_back(static_cast<float>(value / sum));
    }
    return out;
  }

  static constexpr float kFactor = 0.3f;

  kernels::KernelTable kernels = kernels::select_table();
  std::vector<kernels::RowKind> kinds;
  size_t n_q_heads;
  KvLayer layer;
  uint32_t n_blocks = 0;
  std::vector<size_t> depths;
  std::vector<std::vector<uint32_t>> ids;
  std::vector<uint32_t> positions, sequences;
  std::vector<Gap> gaps;
  std::vector<std::vector<float>> keys, values;
  std::vector<float> q, q_before;
};

bool same_bits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

class AttentionSplit : public testing::TestWithParam<KvType> {
 protected:
  // Max difference between attention and plain arithmetic with the original keys and values.
  static double tolerance() {
    if (GetParam() == KvType::kQ4_0) return 1.0;
    return GetParam() == KvType::kQ8_0 ? 0.08 : 2e-3;
  }
};

// One row and many, deep and shallow, with and without a window: the same bits with any number of
// threads, and for each row alone.
TEST_P(AttentionSplit, KeepsEveryBit) {
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

// Positions before a gap are seen through separate queries, positions within it are not seen.
// Results equal plain arithmetic, and have the same bits for every split of the work.
TEST_P(AttentionSplit, SeesBothSidesOfAGap) {
  struct Case {
    Gap gap;
    size_t window;
  };
  for (const Case& c : {Case{{37, 500}, 0},
                        {{0, 100}, 0},
                        {{300, 365}, 0},
                        {{64, 896}, 0},
                        {{37, 500}, 512},
                        {{37, 890}, 64}}) {
    Scene scene(GetParam(), 2, 6, 32, c.window);
    scene.add_sequence(200, 3);
    scene.add_sequence(900, 4);
    scene.gaps = {{}, c.gap};
    const std::vector<float> expected = scene.attend(1);
    for (const int n_threads : {2, 5})
      EXPECT_TRUE(same_bits(scene.attend(n_threads), expected)) << n_threads << " threads";
    const size_t n_cols = 6 * 32;
    EXPECT_TRUE(same_bits(scene.attend(2, 5, 6), std::span(expected).subspan(5 * n_cols, n_cols)));
    for (size_t row = 0; row < scene.positions.size(); ++row) {
      const std::vector<float> plain = scene.plainly(row);
      for (size_t i = 0; i < n_cols; ++i)
        ASSERT_NEAR(expected[row * n_cols + i], plain[i], tolerance())
            << "gap " << c.gap.begin << ".." << c.gap.end << ", row " << row;
    }
  }
}

// A row sees only its own chunk, also if a tile of rows covers two chunks, and after a gap.
TEST_P(AttentionSplit, SeesTheLastChunk) {
  for (const Gap& gap : {Gap{}, Gap{37, 500}, Gap{100, 890}}) {
    Scene scene(GetParam(), 2, 6, 32, 300);
    scene.layer.chunk = 300;
    scene.add_sequence(302, 4);
    scene.add_sequence(920, 30);
    scene.gaps = {{}, gap};
    const std::vector<float> expected = scene.attend(1);
    EXPECT_TRUE(same_bits(scene.attend(3), expected));
    const size_t n_cols = 6 * 32;
    EXPECT_TRUE(
        same_bits(scene.attend(2, 5, 9), std::span(expected).subspan(5 * n_cols, 4 * n_cols)));
    for (size_t row = 0; row < scene.positions.size(); ++row) {
      const std::vector<float> plain = scene.plainly(row);
      for (size_t i = 0; i < n_cols; ++i)
        ASSERT_NEAR(expected[row * n_cols + i], plain[i], tolerance())
            << "gap " << gap.begin << ".." << gap.end << ", row " << row;
    }
  }
}

// Tokens that are read use the kernel of scalar, and tokens that are written that of the processor.
TEST_P(AttentionSplit, TokensOfTwoKindsEqualTokensOfOneKind) {
  Scene scene(GetParam(), 2, 6, 32, 0);
  scene.add_sequence(300, 1);
  scene.add_sequence(700, 70);
  scene.add_sequence(90, 90);
  const kernels::KernelTable written = scene.kernels;
  const kernels::KernelTable& read = *kernels::tables().back();
  scene.kernels.read_attention = read.attention;
  for (size_t row = 0; row < scene.positions.size(); ++row) {
    const bool is_read = row > 10 && scene.positions[row] < 680;
    scene.kinds.push_back(is_read ? kernels::RowKind::kRead : kernels::RowKind::kWritten);
  }
  for (const int n_threads : {1, 3}) {
    const std::vector<float> found = scene.attend(n_threads);
    Scene pure = scene;
    pure.kinds = {};
    pure.kernels = written;
    const std::vector<float> if_written = pure.attend(n_threads);
    pure.kernels.attention = read.attention;
    const std::vector<float> if_read = pure.attend(n_threads);
    const size_t n_cols = 6 * 32;
    for (size_t row = 0; row < scene.positions.size(); ++row) {
      const bool is_read = scene.kinds[row] == kernels::RowKind::kRead;
      EXPECT_TRUE(
          same_bits(std::span(found).subspan(row * n_cols, n_cols),
                    std::span(is_read ? if_read : if_written).subspan(row * n_cols, n_cols)))
          << "row " << row;
    }
  }
}

// A weighted mean of equal values is that value.
TEST_P(AttentionSplit, AveragesEqualValues) {
  const KvLayer layer{.types = GetParam(),
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
    attention(compute, placed, {{&last, 1}, {same.data(), 1}, blocks}, {.q = {q.data(), 1, 16}}, {},
              {out.data(), 1, 16});
    for (const float value : out) EXPECT_NEAR(value, 2.0f, 2e-3) << "depth " << depth;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, AttentionSplit,
                         testing::Values(KvType::kInt16, KvType::kQ8_0, KvType::kQ4_0),
                         [](const testing::TestParamInfo<KvType>& type) {
                           return std::string(kernels::name_of(type.param));
                         });

}  // namespace
}  // namespace billow::nn
