#include "nn/linear.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <vector>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

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

}  // namespace
}  // namespace billow::nn
