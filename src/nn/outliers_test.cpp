#include "nn/outliers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kIn = 256;
constexpr size_t kOut = 40;
constexpr size_t kRows = 150;

// Returns rows. Every other row has an outlier.
std::vector<float> rows_with_outliers() {
  std::vector<float> x = gaussian(kRows * kIn, 1);
  for (size_t row = 0; row < kRows; row += 2) x[row * kIn + row % kIn] = 80.0f;
  return x;
}

struct Weights {
  std::vector<std::byte> bytes = encoded(quant::Type::kQ8_0, gaussian(kOut* kIn, 2));
  tensor::Tensor tensor{bytes.data(), quant::Type::kQ8_0, kIn, kOut, nullptr};
};

std::vector<float> products(std::vector<float> x, bool with_outliers, int n_threads = 1) {
  const Weights weights;
  const std::vector<float> bias = gaussian(kOut, 3);
  cpu::ThreadTeam team(n_threads);
  tensor::Arena arena;
  const Compute compute{kernels::select_table(), team, arena};
  const size_t n = x.size() / kIn;
  std::vector<float> out(n * kOut);
  const Product product{weights.tensor, bias.data(), {out.data(), n, kOut}};
  if (with_outliers)
    linear_with_outliers(compute, {x.data(), n, kIn}, {product});
  else
    linear(compute, {x.data(), n, kIn}, {product});
  return out;
}

// Returns the root of the mean square error of row `row`.
double error_of(const std::vector<float>& x, const std::vector<float>& found, size_t row) {
  const Weights weights;
  const std::vector<float> bias = gaussian(kOut, 3);
  std::vector<float> weight(kIn);
  double sum = 0.0;
  for (size_t i = 0; i < kOut; ++i) {
    quant::row(quant::Type::kQ8_0).decode(weights.tensor.row(i), kIn, weight.data());
    double expected = static_cast<double>(bias[i]);
    for (size_t j = 0; j < kIn; ++j)
      expected += static_cast<double>(weight[j]) * static_cast<double>(x[row * kIn + j]);
    sum += std::pow(expected - static_cast<double>(found[row * kOut + i]), 2);
  }
  return std::sqrt(sum / kOut);
}

TEST(Outliers, DoNotReducePrecisionOfTheirRow) {
  const std::vector<float> x = rows_with_outliers();
  const std::vector<float> plain = products(x, false);
  const std::vector<float> found = products(x, true);
  for (size_t row = 0; row < kRows; ++row) {
    if (row % 2 == 0) {
      EXPECT_LT(error_of(x, found, row), 0.05 * error_of(x, plain, row)) << row;
    } else {
      for (size_t i = row * kOut; i < (row + 1) * kOut; ++i) EXPECT_EQ(found[i], plain[i]);
    }
  }
}

TEST(Outliers, EQ_1_EQ_3_RowBitsDoNotDependOnOtherRowsOrThreads) {
  const std::vector<float> x = rows_with_outliers();
  const std::vector<float> all = products(x, true);
  EXPECT_EQ(products(x, true, 3), all);
  for (size_t row = 0; row < kRows; row += 7) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kIn);
    const std::vector<float> own = products({begin, begin + kIn}, true);
    EXPECT_TRUE(
        std::equal(own.begin(), own.end(), all.begin() + static_cast<std::ptrdiff_t>(row * kOut)));
  }
}

}  // namespace
}  // namespace billow::nn
