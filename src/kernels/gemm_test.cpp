#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "kernels/test_data.h"

namespace billow::kernels {
namespace {

// Rows of activations in both forms, and weights of one type.
struct Problem {
  Problem(const KernelTable& table, quant::Type type_, size_t m_, size_t n_, size_t k_,
          unsigned seed)
      : type(type_), m(m_), n(n_), k(k_), x(gaussian(m_ * k_, seed)) {
    const size_t width = padded(k);
    values.assign(m * width, 0.0f);
    codes.resize(m * width);
    scales.resize(m * width / kActivationGroup);
    sums.resize(m * width / 16);
    code_sums.resize(m * width / 16);
    for (size_t i = 0; i < m; ++i) {
      std::memcpy(&values[i * width], &x[i * k], k * sizeof(float));
      table.quantize_row(&x[i * k], k, &codes[i * width], &scales[i * width / kActivationGroup],
                         &sums[i * width / 16], &code_sums[i * width / 16]);
    }
    const std::vector<float> w = gaussian(n * k, seed + 1);
    weight.resize(n * quant::row_bytes(type, k) + 1);  // one more, to try an odd address
    for (size_t i = 0; i < n; ++i) {
      quant::row(type).encode(&w[i * k], k,
                              weight.data() + offset() + i * quant::row_bytes(type, k));
    }
  }
  // Groups of integer types may lie anywhere.
  size_t offset() const { return quant::row(type).integer ? 1 : 0; }

  std::vector<float> run(const KernelTable& table, size_t n_begin, size_t n_end) const {
    std::vector<float> out(m * n, -1.0f);
    table.gemm[static_cast<size_t>(type)]({.weight = weight.data() + offset(),
                                           .row_bytes = quant::row_bytes(type, k),
                                           .n_begin = n_begin,
                                           .n_end = n_end,
                                           .input = {.m = m,
                                                     .k = k,
                                                     .values = values.data(),
                                                     .codes = codes.data(),
                                                     .scales = scales.data(),
                                                     .sums = sums.data()},
                                           .out = out.data(),
                                           .out_stride = n});
    return out;
  }

  quant::Type type;
  size_t m, n, k;
  std::vector<float> x, values;
  std::vector<int8_t> codes;
  std::vector<float> scales, sums;
  std::vector<int32_t> code_sums;
  std::vector<std::byte> weight;
};

std::vector<size_t> widths(const quant::TypeRow& row) {
  if (row.group_len == 256) return {256, 1280};
  if (row.group_len == 32) return {32, 96, 576, 1056};
  return {1, 7, 64, 579};
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return std::sqrt(sum);
}

// The scalar table against double arithmetic: the error is that of 8-bit activations, or of float
// sums.
TEST(ScalarGemm, ComputesDotProductsOfTheDecodedWeights) {
  for (const quant::TypeRow& row : quant::types()) {
    for (const size_t k : widths(row)) {
      const Problem problem(scalar(), row.type, 3, 5, k, 1);
      const std::vector<float> out = problem.run(scalar(), 0, 5);
      std::vector<float> w(k);
      for (size_t n = 0; n < 5; ++n) {
        row.decode(problem.weight.data() + problem.offset() + n * quant::row_bytes(row.type, k), k,
                   w.data());
        for (size_t m = 0; m < 3; ++m) {
          double sum = 0;
          for (size_t i = 0; i < k; ++i)
            sum += static_cast<double>(w[i]) * static_cast<double>(problem.x[m * k + i]);
          const double size = norm(w) * std::sqrt(static_cast<double>(k));
          EXPECT_NEAR(
              out[m * 5 + n], sum,
              (row.integer ? 1e-2 : 1e-5) * size / std::sqrt(static_cast<double>(k)) * 3 + 1e-5)
              << row.name << " k " << k;
        }
      }
    }
  }
}

class Gemm : public EachTable {};

// The integer part is exact, so tables differ by the rounding of float sums only.
TEST_P(Gemm, AgreesWithScalarForEveryTypeAndShape) {
  for (const quant::TypeRow& row : quant::types()) {
    for (const size_t k : widths(row)) {
      for (const size_t m : {1u, 2u, 5u, 9u}) {
        const Problem problem(scalar(), row.type, m, 11, k, 2);
        const std::vector<float> expected = problem.run(scalar(), 0, 11);
        const std::vector<float> out = problem.run(*GetParam(), 0, 11);
        for (size_t i = 0; i < out.size(); ++i) {
          EXPECT_NEAR(out[i], expected[i], 2e-5 * std::sqrt(static_cast<double>(k)) * 4 + 1e-5)
              << row.name << " m " << m << " k " << k << " at " << i;
        }
      }
    }
  }
}

// A row's results do not depend on the rows beside it nor on how the outputs are shared out:
// sequences rely on it.
TEST_P(Gemm, IsBitwiseIndependentOfItsNeighbours) {
  for (const quant::TypeRow& row : quant::types()) {
    const size_t k = widths(row).back();
    const Problem all(*GetParam(), row.type, 7, 13, k, 3);
    const std::vector<float> together = all.run(*GetParam(), 0, 13);
    for (size_t m = 0; m < 7; ++m) {
      Problem alone(*GetParam(), row.type, 1, 13, k, 3);
      const size_t width = padded(k);
      alone.weight = all.weight;
      std::memcpy(alone.values.data(), &all.values[m * width], width * sizeof(float));
      std::memcpy(alone.codes.data(), &all.codes[m * width], width);
      std::memcpy(alone.scales.data(), &all.scales[m * width / 32], width / 32 * sizeof(float));
      std::memcpy(alone.sums.data(), &all.sums[m * width / 16], width / 16 * sizeof(float));
      for (const size_t cut : {0u, 3u, 8u}) {
        std::vector<float> out = alone.run(*GetParam(), 0, cut);
        const std::vector<float> rest = alone.run(*GetParam(), cut, 13);
        std::copy(rest.begin() + static_cast<long>(cut), rest.end(),
                  out.begin() + static_cast<long>(cut));
        EXPECT_EQ(std::memcmp(out.data(), &together[m * 13], 13 * sizeof(float)), 0)
            << row.name << " row " << m;
      }
    }
  }
}

TEST_P(Gemm, WritesOnlyTheColumnsItWasAskedFor) {
  const Problem problem(*GetParam(), quant::Type::kQ4_0, 6, 12, 64, 4);
  const std::vector<float> out = problem.run(*GetParam(), 5, 6);
  for (size_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i] == -1.0f, i % 12 != 5);
}

INSTANTIATE_TEST_SUITE_P(Isa, Gemm, testing::ValuesIn(fast_tables()), table_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Gemm);

}  // namespace
}  // namespace billow::kernels
