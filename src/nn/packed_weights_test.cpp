#include "nn/packed_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <random>

#include "cpu/thread_team.h"

namespace billow::nn {
namespace {

// Returns rows of random bytes, because packing is defined for any bytes.
std::vector<std::byte> random_rows(const tensor::Tensor& shape, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> rows(shape.n_rows * shape.row_bytes());
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random() & 0x3F);
  return rows;
}

struct Matrices {
  // The packed form has more than two huge pages. Strips cross their borders.
  Matrices()
      : shapes{{nullptr, quant::Type::kQ4_0, 2080, 2070, nullptr},
               {nullptr, quant::Type::kQ6_K, 512, 21, nullptr},
               {nullptr, quant::Type::kQ8_0, 96, 5, nullptr},
               {nullptr, quant::Type::kF16, 70, 37, nullptr},
               {nullptr, quant::Type::kF32, 33, 16, nullptr},
               {nullptr, quant::Type::kQ4_K, 1024, 4000, nullptr}} {
    for (size_t i = 0; i < shapes.size(); ++i) {
      rows.push_back(random_rows(shapes[i], static_cast<unsigned>(i)));
      shapes[i].data = rows[i].data();
    }
  }
  size_t packed_bytes() const {
    size_t sum = 0;
    for (const tensor::Tensor& shape : shapes) {
      sum += PackedWeights::bytes_of(shape.type, shape.n_cols, shape.n_rows);
    }
    return sum;
  }
  std::vector<std::vector<std::byte>> rows;
  std::vector<tensor::Tensor> shapes;
};

// Packs strip by strip.
std::vector<std::byte> packed_alone(const tensor::Tensor& weight) {
  const quant::Packing packing = quant::row(weight.type).packing;
  const size_t n_scales = 16 * kernels::padded(weight.n_cols) / 16;
  std::vector<float> scales(n_scales);
  std::vector<float> offsets(n_scales);
  std::vector<std::byte> out(packing.matrix_bytes(weight.n_rows, weight.n_cols));
  for (size_t row = 0; row < weight.n_rows; row += 16) {
    kernels::select_table()
        .of(weight.type)
        .pack_strip({.weight = weight.row(row),
                     .row_bytes = weight.row_bytes(),
                     .n_rows = std::min<size_t>(16, weight.n_rows - row),
                     .k = weight.n_cols,
                     .scales = scales.data(),
                     .offsets = offsets.data(),
                     .out = out.data() + row / 16 * packing.strip_bytes(weight.n_cols)});
  }
  return out;
}

TEST(PackedWeights, ProducesTheSameBytesWithAnyNumberOfThreads) {
  const Matrices matrices;
  ASSERT_GT(matrices.packed_bytes(), size_t{4} << 20);
  for (const int n_threads : {1, 3}) {
    PackedWeights packed(kernels::select_table(), matrices.packed_bytes(), {});
    std::vector<tensor::Tensor> weights = matrices.shapes;
    for (tensor::Tensor& weight : weights) packed.add(weight);
    cpu::ThreadTeam team(n_threads);
    team.run([&](int) { packed.pack(); });
    EXPECT_EQ(packed.n_bytes(), matrices.packed_bytes());
    for (const tensor::Tensor& weight : weights) {
      const std::vector<std::byte> expected = packed_alone(weight);
      EXPECT_EQ(std::memcmp(weight.packed, expected.data(), expected.size()), 0)
          << quant::row(weight.type).name << " with " << n_threads << " threads";
    }
  }
}

TEST(PackedWeights, ReleasesEachByteOnce) {
  const Matrices matrices;
  std::mutex mutex;
  std::map<const std::byte*, size_t> released;
  PackedWeights packed(kernels::select_table(), matrices.packed_bytes(),
                       [&](std::span<const std::byte> part) {
                         const std::lock_guard lock(mutex);
                         if (!part.empty()) released[part.data()] += part.size();
                       });
  std::vector<tensor::Tensor> weights = matrices.shapes;
  for (tensor::Tensor& weight : weights) packed.add(weight);
  cpu::ThreadTeam team(2);
  team.run([&](int) { packed.pack(); });
  for (const std::vector<std::byte>& rows : matrices.rows) {
    const std::byte* at = rows.data();
    while (released.contains(at)) at += released[at];
    EXPECT_EQ(at, rows.data() + rows.size());
  }
}

// 4 members on two nodes. The packed form has several matrices, so each node has several ranges.
TEST(PackedWeights, RowsAreOnTheNodeOfTheMemberThatReadsThem) {
  constexpr size_t kHugePage = size_t{2} << 20;
  const std::vector<int> nodes = {0, 0, 1, 1};
  std::vector<tensor::Tensor> weights = {{nullptr, quant::Type::kQ8_0, 4096, 8192, nullptr},
                                         {nullptr, quant::Type::kQ8_0, 4096, 2048, nullptr},
                                         {nullptr, quant::Type::kQ4_0, 64, 48, nullptr},
                                         {nullptr, quant::Type::kQ4_0, 4096, 8192, nullptr}};
  size_t max_bytes = 0;
  for (const tensor::Tensor& weight : weights)
    max_bytes += PackedWeights::bytes_of(weight.type, weight.n_cols, weight.n_rows);
  PackedWeights packed(kernels::select_table(), max_bytes, {});
  for (tensor::Tensor& weight : weights) packed.add(weight);
  const std::vector<PackedWeights::NodeRange> ranges = packed.node_ranges(nodes);

  size_t end = 0;
  for (const PackedWeights::NodeRange& range : ranges) {
    EXPECT_EQ(range.begin, end);
    EXPECT_EQ(range.begin % kHugePage, 0u);
    EXPECT_TRUE(end == 0 ||
                range.node != ranges[static_cast<size_t>(&range - &ranges[0]) - 1].node);
    end = range.end;
  }
  EXPECT_EQ(end, (packed.n_bytes() + kHugePage - 1) / kHugePage * kHugePage);

  const auto node_of = [&](size_t byte) {
    const auto range = std::ranges::upper_bound(ranges, byte, {}, &PackedWeights::NodeRange::end);
    return range == ranges.end() ? -1 : range->node;
  };
  size_t begin = 0;
  size_t n_far = 0;  // strips on another node than their member, because pages are large
  size_t n_strips = 0;
  for (const tensor::Tensor& weight : weights) {
    const size_t strip = quant::row(weight.type).packing.strip_bytes(weight.n_cols);
    for (size_t row = 0; row < weight.n_rows; row += quant::kStripRows) {
      n_far += node_of(begin) == (row < weight.n_rows / 2 ? 0 : 1) ? 0 : 1;
      begin += strip;
      ++n_strips;
    }
  }
  EXPECT_LT(n_far, n_strips / 8) << n_far << " of " << n_strips;
  EXPECT_TRUE(packed.node_ranges({}).empty());
}

// A model with very many experts: the system limits the number of mappings.
TEST(PackedWeights, ManyExpertsAreOnNoSpecialNode) {
  const std::vector<int> nodes = {0, 1};
  const auto n_ranges = [&](size_t n_experts) {
    std::vector<tensor::Tensor> weights(n_experts + 2,
                                        {nullptr, quant::Type::kQ8_0, 4096, 2048, nullptr});
    const size_t n_bytes = PackedWeights::bytes_of(quant::Type::kQ8_0, 4096, 2048);
    PackedWeights packed(kernels::select_table(), weights.size() * n_bytes, {});
    for (size_t i = 0; i < weights.size(); ++i) packed.add(weights[i], i > 0 && i <= n_experts);
    const std::vector<PackedWeights::NodeRange> ranges = packed.node_ranges(nodes);
    size_t end = 0;
    for (const PackedWeights::NodeRange& range : ranges) {
      EXPECT_EQ(range.begin, end);
      end = range.end;
    }
    EXPECT_GE(end, packed.n_bytes());
    return ranges.size();
  };
  EXPECT_GT(n_ranges(1000), 1000u);
  EXPECT_LE(n_ranges(10'000), 5u) << "two matrices with two ranges each, and the experts";
}

}  // namespace
}  // namespace billow::nn
