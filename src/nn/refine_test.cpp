#include "nn/refine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "cpu/features.h"
#include "nn/linear.h"
#include "nn/packed_weights.h"
#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kIn = 288;  // not a multiple of 64
constexpr size_t kOut = 2 * kRunOfProducts + 21;
constexpr size_t kRows = 3;
constexpr float kReach = 15.0f;

struct Products {
  std::vector<float> exact = std::vector<float>(kRows * kOut);
  std::vector<float> plain = exact;
  std::vector<float> refined = exact;

  float min(size_t m) const {
    const float* row = plain.data() + m * kOut;
    return *std::max_element(row, row + kOut) - kReach;
  }
  // Returns whether the strip of a product contains one that is near the max.
  bool near(size_t m, size_t n) const {
    const size_t begin = n / quant::kStripRows * quant::kStripRows;
    const float* row = plain.data() + m * kOut;
    const float* end = row + std::min(begin + quant::kStripRows, kOut);
    return *std::max_element(row + begin, end) >= min(m);
  }
};

Products products(const kernels::KernelTable& kernels, quant::Type type, int n_threads,
                  bool packed) {
  Products products;
  const std::vector<float> values = gaussian(kOut * kIn, 1);
  std::vector<float> x = gaussian(kRows * kIn, 2);
  std::vector<std::byte> bytes = encoded(type, values);
  std::vector<float> weights(values.size());
  quant::row(type).decode(bytes.data(), values.size(), weights.data());
  for (size_t i = 0; i < kRows * kOut; ++i) {
    double sum = 0.0;
    for (size_t k = 0; k < kIn; ++k)
      sum += static_cast<double>(weights[i % kOut * kIn + k]) *
             static_cast<double>(x[i / kOut * kIn + k]);
    products.exact[i] = static_cast<float>(sum);
  }
  cpu::ThreadTeam team(n_threads);
  tensor::Arena arena;
  const Compute compute{kernels, team, arena};
  tensor::Tensor weight = {bytes.data(), type, kIn, kOut};
  PackedWeights kept(kernels, PackedWeights::bytes_of(type, kIn, kOut), [](auto) {});
  if (packed) kept.add(weight);
  kept.pack();
  linear(compute, {x.data(), kRows, kIn},
         {{weight, nullptr, {products.plain.data(), kRows, kOut}}});
  products.refined = products.plain;
  refine_max(compute, {x.data(), kRows, kIn}, weight, kReach,
             {products.refined.data(), kRows, kOut});
  return products;
}

// Returns the largest error among products that are near the max.
float largest_error(const Products& products, const std::vector<float>& of) {
  float largest = 0.0f;
  for (size_t i = 0; i < of.size(); ++i) {
    if (products.near(i / kOut, i % kOut))
      largest = std::max(largest, std::abs(of[i] - products.exact[i]));
  }
  return largest;
}

TEST(Refine, MakesTheLargestExactAndKeepsTheOthers) {
  for (const kernels::KernelTable* table : kernels::tables()) {
    if (!table->supported(cpu::features())) continue;
    for (const quant::Type type : {quant::Type::kQ8_0, quant::Type::kQ4_0, quant::Type::kIQ4_NL}) {
      if (table->of(type).input->kind != kernels::InputKind::kCodes) continue;
      const Products products = billow::nn::products(*table, type, 2, true);
      EXPECT_GT(largest_error(products, products.plain), 0.05f) << table->name;
      EXPECT_LT(largest_error(products, products.refined), 0.002f) << table->name;
      size_t n_near = 0;
      for (size_t i = 0; i < kRows * kOut; ++i) {
        const bool near = products.near(i / kOut, i % kOut);
        n_near += near ? 1 : 0;
        ASSERT_TRUE(near || products.refined[i] == products.plain[i]) << table->name;
      }
      EXPECT_GT(n_near, kRows);
      EXPECT_LT(n_near, kRows * kOut / 2);
    }
  }
}

TEST(Refine, DoesNotDependOnThreadsOrPackedWeights) {
  const kernels::KernelTable& table = kernels::select_table();
  const Products products = billow::nn::products(table, quant::Type::kQ8_0, 1, true);
  EXPECT_EQ(products.refined, billow::nn::products(table, quant::Type::kQ8_0, 3, true).refined);
  EXPECT_EQ(products.refined, billow::nn::products(table, quant::Type::kQ8_0, 3, false).refined);
}

TEST(Refine, DoesNotChangeProductsOfFloatWeights) {
  for (const kernels::KernelTable* table : kernels::tables()) {
    if (!table->supported(cpu::features())) continue;
    const Products products = billow::nn::products(*table, quant::Type::kF32, 2, true);
    EXPECT_EQ(products.refined, products.plain) << table->name;
  }
}

}  // namespace
}  // namespace billow::nn
