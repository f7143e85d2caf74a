#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/test_data.h"
#include "quant/half.h"

namespace billow::kernels {
namespace {

std::vector<const KernelTable*> all_tables() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  return usable;
}

// Compares every table with formulas in double precision, for lengths with every kind of tail.
class Rows : public EachTable {};

const size_t kLengths[] = {1, 7, 8, 15, 16, 17, 33, 64, 576};

TEST_P(Rows, NormsByTheRootMeanSquare) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = gaussian(n, 1);
    const std::vector<float> weight = gaussian(n, 2);
    std::vector<float> out = x;
    GetParam()->rms_norm(out.data(), weight.data(), n, 1e-5f, out.data());
    double squares = 0;
    for (const float value : x) squares += static_cast<double>(value) * static_cast<double>(value);
    for (size_t i = 0; i < n; ++i) {
      const double expected = static_cast<double>(x[i]) /
                              std::sqrt(squares / static_cast<double>(n) + 1e-5) *
                              static_cast<double>(weight[i]);
      EXPECT_NEAR(out[i], expected, 1e-6 * (1 + std::abs(expected)));
    }
  }
}

// Covers every block and tail of outputs, for all kinds of values. The memory after the outputs
// does not change.
TEST_P(Rows, AddsLowRankProducts) {
  for (const LowRankValues kind :
       {LowRankValues::kFloats, LowRankValues::kHalves, LowRankValues::kCodes}) {
    for (const size_t n : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{200}}) {
      for (const size_t rank : {size_t{1}, size_t{7}, size_t{16}}) {
        const std::vector<float> values = gaussian(n * rank, 5);
        const std::vector<float> h = gaussian(rank, 6);
        const std::vector<float> before = gaussian(n, 7);
        std::vector<float> out = before;
        out.push_back(123.0f);
        alignas(64) static std::byte b[64 * 1024];
        std::fill(std::begin(b), std::end(b), std::byte{});
        const size_t bytes = low_rank_bytes(n, rank, kind);
        ASSERT_LE(bytes, sizeof b);
        std::vector<double> used(n * rank);
        for (size_t i = 0; i < n; ++i) {
          for (size_t j = 0; j < rank; ++j) {
            std::byte* const block =
                b + i / kLowRankBlock * low_rank_bytes(kLowRankBlock, rank, kind);
            const size_t at = j * kLowRankBlock + i % kLowRankBlock;
            const float value = values[i * rank + j];
            const uint16_t half = quant::f32_to_f16(value);
            const auto code = static_cast<int8_t>(std::lround(value * 30.0f));
            const float scale = 1.0f / static_cast<float>(30 + j + i / kLowRankBlock);
            double& exact = used[i * rank + j];
            if (kind == LowRankValues::kFloats) {
              std::memcpy(block + 4 * at, &value, 4);
              exact = static_cast<double>(value);
            } else if (kind == LowRankValues::kHalves) {
              std::memcpy(block + 2 * at, &half, 2);
              exact = static_cast<double>(quant::f16_to_f32(half));
            } else {
              std::memcpy(block + at, &code, 1);
              std::memcpy(block + rank * kLowRankBlock + j * 4, &scale, 4);
              exact = static_cast<double>(code) * static_cast<double>(scale);
            }
          }
        }
        GetParam()->add_low_rank({b, kind, rank, h.data(), n, out.data()});
        for (size_t i = 0; i < n; ++i) {
          auto expected = static_cast<double>(before[i]);
          double size = std::abs(expected);
          for (size_t j = 0; j < rank; ++j) {
            const double term = used[i * rank + j] * static_cast<double>(h[j]);
            expected += term;
            size += std::abs(term);
          }
          EXPECT_NEAR(out[i], expected, 1e-6 * size);
        }
        EXPECT_EQ(out[n], 123.0f);
      }
    }
  }
}

TEST_P(Rows, GatesBySiluAndGelu) {
  for (const size_t n : kLengths) {
    std::vector<float> gate = gaussian(n, 3);
    for (size_t i = 0; i < n; ++i)
      gate[i] *= 1.0f + static_cast<float>(i % 7) * 8.0f;  // also far tails
    const std::vector<float> up = gaussian(n, 4);
    std::vector<float> silu = gate;
    std::vector<float> gelu = gate;
    GetParam()->silu_multiply(silu.data(), up.data(), n);
    GetParam()->gelu_multiply(gelu.data(), up.data(), n);
    for (size_t i = 0; i < n; ++i) {
      const auto g = static_cast<double>(gate[i]);
      const auto u = static_cast<double>(up[i]);
      const double tanh = std::tanh(std::sqrt(2.0 / M_PI) * (g + 0.044715 * g * g * g));
      EXPECT_NEAR(silu[i], g / (1 + std::exp(-g)) * u, 1e-6 * (1 + std::abs(g * u)));
      EXPECT_NEAR(gelu[i], 0.5 * g * (1 + tanh) * u, 2e-6 * (1 + std::abs(g * u)));
    }
  }
}

TEST_P(Rows, NormsByMeanAndVariance) {
  for (const size_t n : kLengths) {
    const std::vector<float> x = gaussian(n, 1);
    std::vector<float> residual = gaussian(n, 2);
    for (float& value : residual) value += 3.0f;
    const std::vector<float> weight = gaussian(n, 3);
    const std::vector<float> bias = gaussian(n, 4);
    for (const bool with_residual : {false, true}) {
      std::vector<float> out = x;
      GetParam()->layer_norm(out.data(), with_residual ? residual.data() : nullptr, weight.data(),
                             bias.data(), n, 1e-5f, out.data());
      const auto y = [&](size_t i) {
        return static_cast<double>(x[i]) + (with_residual ? static_cast<double>(residual[i]) : 0.0);
      };
      double mean = 0;
      double variance = 0;
      for (size_t i = 0; i < n; ++i) mean += y(i) / static_cast<double>(n);
      for (size_t i = 0; i < n; ++i) variance += std::pow(y(i) - mean, 2) / static_cast<double>(n);
      for (size_t i = 0; i < n; ++i) {
        const double expected =
            (y(i) - mean) / std::sqrt(variance + 1e-5) * static_cast<double>(weight[i]) +
            static_cast<double>(bias[i]);
        EXPECT_NEAR(out[i], expected, 1e-5 * (1 + std::abs(expected))) << n;
      }
    }
  }
}

TEST_P(Rows, AppliesGelu) {
  std::vector<float> x;
  for (float value = -12.0f; value < 12.0f; value += 0.01f) x.push_back(value);
  x.insert(x.end(), {-1000.0f, 1000.0f, -1e30f, 1e30f});
  std::vector<float> out = x;
  GetParam()->gelu(out.data(), out.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const auto value = static_cast<double>(x[i]);
    const double expected = 0.5 * value * std::erfc(-value / std::sqrt(2.0));
    EXPECT_NEAR(out[i], expected, 5e-7 * (1 + std::abs(value))) << value;
    if (value < -6.0) {
      EXPECT_NEAR(out[i], 0.0, 1e-6);
    }
  }
  float broken[] = {1.0f, std::numeric_limits<float>::quiet_NaN()};
  GetParam()->gelu(broken, 2);
  EXPECT_TRUE(std::isnan(broken[1]));
}

TEST_P(Rows, AppliesSoftcap) {
  std::vector<float> x = gaussian(77, 5);
  for (float& value : x) value *= 60.0f;
  std::vector<float> capped = x;
  GetParam()->softcap(capped.data(), capped.size(), 30.0f);
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(capped[i], 30.0 * std::tanh(static_cast<double>(x[i]) / 30.0), 1e-4);
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  float broken[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity};
  GetParam()->softcap(broken, 3, 30.0f);
  EXPECT_TRUE(std::isnan(broken[0]));
  EXPECT_EQ(broken[1], 30.0f);
  EXPECT_EQ(broken[2], -30.0f);
}

TEST_P(Rows, RotatesBothKindsOfPairs) {
  for (const size_t n_pairs : {3u, 16u, 32u, 45u}) {
    const std::vector<float> cosines = gaussian(n_pairs, 5);
    const std::vector<float> sines = gaussian(n_pairs, 6);
    const size_t head_len = 2 * n_pairs + 2;
    for (const RopeKind kind : {RopeKind::kAdjacent, RopeKind::kHalves}) {
      const std::vector<float> x = gaussian(2 * head_len, 7);
      std::vector<float> out = x;
      GetParam()->rope(out.data(), 2, head_len, 2 * n_pairs, kind, cosines.data(), sines.data());
      for (size_t h = 0; h < 2; ++h) {
        for (size_t i = 0; i < n_pairs; ++i) {
          const size_t a = head_len * h + (kind == RopeKind::kAdjacent ? 2 * i : i);
          const size_t b = kind == RopeKind::kAdjacent ? a + 1 : a + n_pairs;
          EXPECT_NEAR(out[a], x[a] * cosines[i] - x[b] * sines[i], 2e-6);
          EXPECT_NEAR(out[b], x[a] * sines[i] + x[b] * cosines[i], 2e-6);
        }
        for (size_t i = head_len * (h + 1) - 2; i < head_len * (h + 1); ++i)
          EXPECT_EQ(out[i], x[i]);
      }
    }
  }
}

// Reads the integer layout of activations.
struct Quantized {
  Quantized(const ActivationLayout& layout, const std::vector<float>& x, size_t n_rows, size_t k) {
    bytes.resize(layout.bytes(n_rows, k));
    std::vector<const float*> rows(n_rows);
    for (size_t i = 0; i < n_rows; ++i) rows[i] = x.data() + i * k;
    layout.quantize(rows.data(), n_rows, k, bytes.data());
  }
  template <class T>
  T at(size_t offset) const {
    T value;
    std::memcpy(&value, bytes.data() + offset, sizeof value);
    return value;
  }
  std::vector<std::byte> bytes;
};

TEST_P(Rows, QuantizesWithinHalfAStep) {
  const ActivationLayout& layout = *GetParam()->of(quant::Type::kQ8_0).input;
  if (layout.kind != InputKind::kCodes) GTEST_SKIP() << GetParam()->name << " takes no codes";
  for (const size_t n_rows : {1u, 3u, 4u}) {
    for (const size_t k : {32u, 70u, 576u}) {
      std::vector<float> x = gaussian(n_rows * k, 8);
      std::fill(x.begin(), x.begin() + 32, 0.0f);
      const Quantized found(layout, x, n_rows, k);
      for (size_t i = 0; i < padded(k) * n_rows; i += 32) {
        const size_t row = i / 32 % n_rows;
        const size_t first = i / 32 / n_rows * 32;  // of k
        const size_t block = first / 32 * n_rows * kActivationRowBytes;
        const size_t scales = block + n_rows * 32 + row * 4;
        const auto scale = found.at<float>(scales);
        int sums[3] = {0, 0, 0};
        for (size_t j = 0; j < 32; ++j) {
          const auto code = found.at<int8_t>(block + row * 32 + j);
          const float value = first + j < k ? x[row * k + first + j] : 0.0f;
          EXPECT_NEAR(scale * static_cast<float>(code), value, 0.501f * scale);
          sums[j / 16] += code;
          sums[2] += code;
        }
        for (size_t s = 0; s < 3; ++s) {
          EXPECT_EQ(found.at<int32_t>(scales + (1 + s) * n_rows * 4), -sums[s]);
          EXPECT_FLOAT_EQ(found.at<float>(scales + (4 + s) * n_rows * 4),
                          scale * static_cast<float>(sums[s]));
        }
      }
    }
  }
}

TEST_P(Rows, QuantizesValuesThatAreNotFiniteToNan) {
  const ActivationLayout& layout = *GetParam()->of(quant::Type::kQ8_0).input;
  if (layout.kind != InputKind::kCodes) GTEST_SKIP() << GetParam()->name << " takes no codes";
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> x = gaussian(64, 9);
    x[40] = bad;
    const Quantized found(layout, x, 1, 64);
    EXPECT_FALSE(std::isnan(found.at<float>(32)));
    EXPECT_TRUE(std::isnan(found.at<float>(kActivationRowBytes + 32)));
  }
}

INSTANTIATE_TEST_SUITE_P(Isa, Rows, testing::ValuesIn(all_tables()), table_name);

}  // namespace
}  // namespace billow::kernels
