#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/test_data.h"
#include "quant/half.h"

namespace billow::kernels {
namespace {

// K and V of one head over some blocks, in an order of blocks that is not that of positions.
struct Memory {
  Memory(size_t n_positions_, size_t k_len_, size_t v_len_)
      : n_positions(n_positions_), k_len(k_len_), v_len(v_len_) {
    keys = gaussian(n_positions * k_len, 1);
    values = gaussian(n_positions * v_len, 2);
    const size_t n_blocks = (n_positions + 63) / 64;
    // What was never written is NaN: no row may be touched by it.
    bytes.assign(n_blocks * block_bytes() / 2, 0x7E00);
    for (size_t b = 0; b < n_blocks; ++b) ids.push_back(static_cast<uint32_t>(n_blocks - 1 - b));
    for (size_t p = 0; p < n_positions; ++p) {
      uint16_t* block = bytes.data() + ids[p / 64] * block_bytes() / 2;
      for (size_t d = 0; d < k_len; ++d) {
        block[d * 64 + p % 64] = quant::f32_to_f16(keys[p * k_len + d]);
        keys[p * k_len + d] = quant::f16_to_f32(block[d * 64 + p % 64]);
      }
      for (size_t d = 0; d < v_len; ++d) {
        uint16_t& half = block[64 * k_len + p % 64 * v_len + d];
        half = quant::f32_to_f16(values[p * v_len + d]);
        values[p * v_len + d] = quant::f16_to_f32(half);
      }
    }
  }
  size_t block_bytes() const { return 2 * 64 * (k_len + v_len); }

  // Plain softmax attention in double precision.
  std::vector<double> expected(const float* query, size_t first, size_t last, double scale,
                               double cap) const {
    std::vector<double> scores;
    for (size_t p = first; p <= last; ++p) {
      double score = 0;
      for (size_t d = 0; d < k_len; ++d)
        score += static_cast<double>(query[d]) * static_cast<double>(keys[p * k_len + d]);
      score *= scale;
      scores.push_back(cap > 0 ? cap * std::tanh(score / cap) : score);
    }
    double largest = -std::numeric_limits<double>::infinity();
    for (const double score : scores) largest = std::max(largest, score);
    std::vector<double> out(v_len);
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      const double weight = std::exp(scores[i] - largest);
      sum += weight;
      for (size_t d = 0; d < v_len; ++d)
        out[d] += weight * static_cast<double>(values[(first + i) * v_len + d]);
    }
    for (double& value : out) value /= sum;
    return out;
  }

  size_t n_positions, k_len, v_len;
  std::vector<float> keys, values;
  std::vector<uint16_t> bytes;
  std::vector<uint32_t> ids;
};

struct Rows {
  std::vector<uint32_t> first, last;
};

std::vector<float> run(const KernelTable& table, const Memory& memory,
                       const std::vector<float>& queries, const Rows& rows, float cap) {
  const size_t n = rows.first.size();
  std::vector<float> out(n * memory.v_len);
  std::vector<const float*> query_rows;
  std::vector<float*> output_rows;
  for (size_t r = 0; r < n; ++r) {
    query_rows.push_back(&queries[r * memory.k_len]);
    output_rows.push_back(&out[r * memory.v_len]);
  }
  table.attention({.n_rows = n,
                   .queries = query_rows.data(),
                   .outputs = output_rows.data(),
                   .first = rows.first.data(),
                   .last = rows.last.data(),
                   .base = reinterpret_cast<const std::byte*>(memory.bytes.data()),
                   .block_ids = memory.ids.data(),
                   .block_bytes = memory.block_bytes(),
                   .k_offset = 0,
                   .v_offset = 2 * 64 * memory.k_len,
                   .k_len = memory.k_len,
                   .v_len = memory.v_len,
                   .scale = 0.2f,
                   .softcap = cap});
  return out;
}

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

class Attention : public EachTable {};

TEST_P(Attention, EqualsSoftmaxOverWhatEachRowSees) {
  for (const auto& [k_len, v_len] : {std::pair<size_t, size_t>{64, 64}, {16, 48}, {80, 16}}) {
    for (const float cap : {0.0f, 3.0f}) {
      const Memory memory(300, k_len, v_len);
      // One row, many rows with windows, rows that begin and end at the edges of blocks.
      for (const Rows& rows : {Rows{{0}, {0}}, Rows{{0}, {299}},
                               Rows{{0, 0, 0, 64, 63, 100, 170, 128, 1, 5},
                                    {63, 64, 65, 64, 64, 227, 299, 191, 2, 280}}}) {
        const std::vector<float> queries = gaussian(rows.first.size() * k_len, 3);
        const std::vector<float> out = run(*GetParam(), memory, queries, rows, cap);
        for (size_t r = 0; r < rows.first.size(); ++r) {
          const std::vector<double> expected =
              memory.expected(&queries[r * k_len], rows.first[r], rows.last[r],
                              static_cast<double>(0.2f), static_cast<double>(cap));
          for (size_t d = 0; d < v_len; ++d)
            EXPECT_NEAR(out[r * v_len + d], expected[d], 3e-6) << "row " << r;
        }
      }
    }
  }
}

TEST_P(Attention, IsBitwiseIndependentOfItsNeighbours) {
  const Memory memory(200, 32, 32);
  Rows rows;
  for (uint32_t r = 0; r < 20; ++r) {
    rows.first.push_back(r % 3 == 0 ? r * 5 : 0);
    rows.last.push_back(100 + r * 5);
  }
  const std::vector<float> queries = gaussian(20 * 32, 4);
  const std::vector<float> together = run(*GetParam(), memory, queries, rows, 0.0f);
  for (size_t r = 0; r < 20; ++r) {
    const std::vector<float> query(queries.begin() + static_cast<long>(r * 32),
                                   queries.begin() + static_cast<long>(r * 32 + 32));
    const std::vector<float> alone =
        run(*GetParam(), memory, query, {{rows.first[r]}, {rows.last[r]}}, 0.0f);
    EXPECT_EQ(std::memcmp(alone.data(), &together[r * 32], 32 * sizeof(float)), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Attention, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
