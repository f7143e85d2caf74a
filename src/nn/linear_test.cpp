#include "nn/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <numeric>
#include <span>
#include <vector>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

// The members may run on any processor, but products divide rows as for two NUMA nodes.
std::vector<cpu::Place> places_on_two_nodes(int n_members) {
  std::vector<int> any(1024);
  std::iota(any.begin(), any.end(), 0);
  std::vector<cpu::Place> places;
  for (int i = 0; i < n_members; ++i) places.push_back({.node = 2 * i / n_members, .cpus = any});
  return places;
}

TEST(Linear, TeamsOnSeveralNodesComputeTheSameBits) {
  constexpr size_t kIn = 256;
  constexpr size_t kOut[] = {37, 64, 640};
  std::vector<std::byte> weights[3];
  for (size_t i = 0; i < 3; ++i)
    weights[i] = encoded(quant::Type::kQ8_0, gaussian(kOut[i] * kIn, static_cast<unsigned>(i)));
  for (const size_t n_rows : {1u, 3u, 130u}) {
    std::vector<float> x = gaussian(n_rows * kIn, 4);
    const auto products_of = [&](cpu::ThreadTeam& team) {
      tensor::Arena arena;
      std::vector<float> out[3];
      for (size_t i = 0; i < 3; ++i) out[i].resize(n_rows * kOut[i]);
      const auto product = [&](size_t i) {
        return Product{{weights[i].data(), quant::Type::kQ8_0, kIn, kOut[i]},
                       nullptr,
                       {out[i].data(), n_rows, kOut[i]}};
      };
      linear({kernels::select_table(), team, arena}, {x.data(), n_rows, kIn},
             {product(0), product(1), product(2)});
      out[0].insert(out[0].end(), out[1].begin(), out[1].end());
      out[0].insert(out[0].end(), out[2].begin(), out[2].end());
      return out[0];
    };
    cpu::ThreadTeam alone(1);
    const std::vector<float> expected = products_of(alone);
    for (const int n_members : {2, 3, 4, 16}) {
      cpu::ThreadTeam team(n_members, places_on_two_nodes(n_members));
      ASSERT_FALSE(team.nodes().empty());
      EXPECT_EQ(products_of(team), expected) << n_members << " members, " << n_rows << " rows";
    }
  }
}

// Compares products of several types, with bias, with double arithmetic on the decoded weights.
TEST(Linear, ComputesProductsOfSeveralTypesFromOneInput) {
  constexpr size_t kIn = 256;
  std::vector<float> x = gaussian(5 * kIn, 1);
  const std::vector<float> bias = gaussian(37, 2);
  for (const int n_threads : {1, 3}) {
    cpu::ThreadTeam team(n_threads);
    tensor::Arena arena;
    const Compute compute{kernels::select_table(), team, arena};
    const size_t n_out[2] = {37, 64};
    const quant::Type types[2] = {quant::Type::kQ8_0, quant::Type::kF32};
    std::vector<std::byte> weights[2];
    std::vector<float> out[2];
    for (size_t i = 0; i < 2; ++i) {
      weights[i] = encoded(types[i], gaussian(n_out[i] * kIn, static_cast<unsigned>(3 + i)));
      out[i].resize(5 * n_out[i]);
    }
    linear(compute, {x.data(), 5, kIn},
           {{{weights[0].data(), types[0], kIn, 37}, bias.data(), {out[0].data(), 5, 37}},
            {{weights[1].data(), types[1], kIn, 64}, nullptr, {out[1].data(), 5, 64}}});
    for (size_t i = 0; i < 2; ++i) {
      std::vector<float> decoded(n_out[i] * kIn);
      quant::row(types[i]).decode(weights[i].data(), decoded.size(), decoded.data());
      for (size_t m = 0; m < 5; ++m) {
        for (size_t n = 0; n < n_out[i]; ++n) {
          double sum = i == 0 ? static_cast<double>(bias[n]) : 0.0;
          for (size_t k = 0; k < kIn; ++k)
            sum += static_cast<double>(decoded[n * kIn + k] * x[m * kIn + k]);
          EXPECT_NEAR(out[i][m * n_out[i] + n], sum, i == 0 ? 0.5 : 1e-4);
        }
      }
    }
  }
}

// As for experts: each product has separate inputs, which are rows of x in any order. An input's
// result has the same bits as alone.
TEST(Linear, ProductsOfChosenRowsEqualProductsOfSingleRows) {
  constexpr size_t kIn = 256;
  constexpr size_t kOut = 100;
  constexpr size_t kRows = 96;
  std::vector<float> x = gaussian(kRows * kIn, 1);
  const std::vector<float> bias = gaussian(kOut, 2);
  const size_t ends[] = {1, 1, 10, 34, 50, 145};  // of each product's inputs
  std::vector<uint32_t> rows(ends[5]);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint32_t>(i * 37 % kRows);
  for (const quant::Type type : {quant::Type::kQ4_K, quant::Type::kMXFP4, quant::Type::kF16}) {
    std::vector<std::vector<std::byte>> weights;
    for (unsigned i = 0; i < std::size(ends); ++i)
      weights.push_back(encoded(type, gaussian(kOut * kIn, 10 + i)));
    for (const int n_threads : {1, 3}) {
      cpu::ThreadTeam team(n_threads);
      tensor::Arena arena;
      const Compute compute{kernels::select_table(), team, arena};
      std::vector<float> out(rows.size() * kOut);
      const tensor::Matrix all = {out.data(), rows.size(), kOut};
      std::vector<RowsProduct> products;
      for (size_t i = 0, begin = 0; i < std::size(ends); begin = ends[i++]) {
        products.push_back(
            {begin, ends[i], {weights[i].data(), type, kIn, kOut}, bias.data(), all});
      }
      linear_of_rows(compute, {x.data(), kRows, kIn}, rows, products);
      for (const RowsProduct& product : products) {
        for (size_t i = product.begin; i < product.end; ++i) {
          float alone[kOut];
          linear(compute, {x.data() + rows[i] * kIn, 1, kIn},
                 {{product.weight, bias.data(), {alone, 1, kOut}}});
          for (size_t n = 0; n < kOut; ++n) ASSERT_EQ(all.row(i)[n], alone[n]) << i << ' ' << n;
        }
      }
    }
  }
}

// Rows that are read use the kernels of scalar, and rows that are written those of the processor.
// Each row's result has the same bits as if all rows were of its kind.
TEST(Linear, RowsOfTwoKindsEqualRowsOfOneKind) {
  constexpr size_t kIn = 256;
  constexpr size_t kOut = 100;
  const kernels::KernelTable& written = kernels::select_table("");
  const kernels::KernelTable& read = *kernels::tables().back();
  kernels::KernelTable both = written;
  both.read_types = read.types;
  both.has_read_kernels = true;
  const std::vector<float> bias = gaussian(kOut, 2);
  const quant::Type types[] = {quant::Type::kQ4_K, quant::Type::kF32};
  std::vector<std::byte> weights[2];
  for (size_t i = 0; i < 2; ++i)
    weights[i] = encoded(types[i], gaussian(kOut * kIn, static_cast<unsigned>(10 + i)));
  for (const size_t n_rows : {1u, 2u, 9u, 70u, 300u}) {
    std::vector<float> x = gaussian(n_rows * kIn, 1);
    // Three rows that are written, then rows that are read, with a written one in every 50.
    std::vector<kernels::RowKind> kinds(n_rows, kernels::RowKind::kRead);
    for (size_t i = 0; i < n_rows; ++i)
      if (i < 3 || i % 50 == 49) kinds[i] = kernels::RowKind::kWritten;
    std::vector<uint32_t> all(n_rows);
    for (size_t i = 0; i < n_rows; ++i) all[i] = static_cast<uint32_t>((i * 7 + 1) % n_rows);
    for (const int n_threads : {1, 3}) {
      cpu::ThreadTeam team(n_threads);
      tensor::Arena arena;
      const auto multiply = [&](const kernels::KernelTable& kernels, RowKinds of_rows,
                                std::span<const uint32_t> rows) {
        const Compute compute{.kernels = kernels, .team = team, .arena = arena, .kinds = of_rows};
        std::vector<float> out(2 * n_rows * kOut);
        const tensor::Matrix to[] = {{out.data(), n_rows, kOut},
                                     {out.data() + n_rows * kOut, n_rows, kOut}};
        const tensor::Tensor w[] = {{weights[0].data(), types[0], kIn, kOut},
                                    {weights[1].data(), types[1], kIn, kOut}};
        if (rows.empty()) {
          linear(compute, {x.data(), n_rows, kIn},
                 {{w[0], bias.data(), to[0]}, {w[1], nullptr, to[1]}});
        } else {
          const size_t middle = n_rows / 2;
          const std::vector<RowsProduct> products = {{0, middle, w[0], bias.data(), to[0]},
                                                     {0, middle, w[1], nullptr, to[1]},
                                                     {middle, n_rows, w[0], bias.data(), to[0]},
                                                     {middle, n_rows, w[1], nullptr, to[1]}};
          linear_of_rows(compute, {x.data(), n_rows, kIn}, rows, products);
        }
        return out;
      };
      for (const bool chosen : {false, true}) {
        const std::span<const uint32_t> rows =
            chosen ? std::span<const uint32_t>(all) : std::span<const uint32_t>();
        const std::vector<float> found = multiply(both, kinds, rows);
        const std::vector<float> if_written = multiply(written, {}, rows);
        const std::vector<float> if_read = multiply(read, {}, rows);
        for (size_t i = 0; i < 2 * n_rows; ++i) {
          const size_t row = chosen ? all[i % n_rows] : i % n_rows;
          const bool is_read = kinds[row] == kernels::RowKind::kRead;
          const float* const expected = (is_read ? if_read : if_written).data() + i * kOut;
          ASSERT_EQ(std::memcmp(&found[i * kOut], expected, kOut * sizeof(float)), 0)
              << "row " << row << " of " << n_rows << ", " << n_threads << " threads";
        }
      }
    }
  }
}

}  // namespace
}  // namespace billow::nn
