// Attention within a text: compares every table with formulas in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>

#include "kernels/test_data.h"

namespace billow::kernels {
namespace {

struct Kernel {
  std::string name;
  void (*attend)(const EncoderAttentionArgs&) noexcept;
  bool in_bf16;
};

std::vector<Kernel> all_kernels() {
  std::vector<const KernelTable*> usable = fast_tables();
  usable.push_back(&scalar());
  std::vector<Kernel> kernels;
  for (const KernelTable* table : usable) {
    const std::string name(table->name);
    kernels.push_back({name, table->encoder_attention, false});
    if (table->encoder_attention_bf16 != nullptr)
      kernels.push_back({name + "_in_bf16", table->encoder_attention_bf16, true});
  }
  return kernels;
}

// To nearest; ties do not occur in random numbers.
float rounded_to_bf16(float x) {
  return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + 0x8000u) & 0xFFFF0000u);
}

// One head of len values among n_heads heads, for n tokens. Allocates exactly the promised memory.
struct Text {
  Text(size_t n_, size_t len_, size_t n_heads_ = 3)
      : n(n_),
        len(len_),
        stride(n_heads_ * len_),
        q(gaussian(n * stride, 1)),
        k(gaussian(n * stride, 2)),
        v(gaussian(n * stride, 3)) {
    for (float& value : q) value *= 3.0f;  // uneven weights
  }

  // Inputs whose rounding to BF16 changes nothing.
  void round_to_bf16() {
    for (std::vector<float>* part : {&q, &k, &v})
      std::ranges::transform(*part, part->begin(), rounded_to_bf16);
  }

  std::vector<float> attended(const Kernel& kernel, size_t head, size_t begin, size_t end) const {
    std::vector<float> out(n * stride, -7.0f);
    const size_t n_scratch = encoder_attention_scratch_floats(n, len);
    const std::unique_ptr<float, decltype(&std::free)> scratch(
        static_cast<float*>(std::aligned_alloc(64, (n_scratch * sizeof(float) + 63) / 64 * 64)),
        &std::free);
    // Kernels must not read values that they have not written.
    std::fill_n(scratch.get(), n_scratch, std::nanf(""));
    kernel.attend({.n_tokens = n,
                   .head_len = len,
                   .queries = q.data() + head * len,
                   .keys = k.data() + head * len,
                   .values = v.data() + head * len,
                   .outputs = out.data() + head * len,
                   .stride = stride,
                   .query_begin = begin,
                   .query_end = end,
                   .scale = scale(),
                   .scratch = scratch.get()});
    return out;
  }

  float scale() const { return 1.0f / std::sqrt(static_cast<float>(len)); }
  double at(const std::vector<float>& x, size_t token, size_t head, size_t i) const {
    return static_cast<double>(x[token * stride + head * len + i]);
  }
  std::vector<double> expected(size_t token, size_t head) const {
    std::vector<double> weights(n);
    double max = -1e300;
    for (size_t j = 0; j < n; ++j) {
      double dot = 0.0;
      for (size_t i = 0; i < len; ++i) dot += at(q, token, head, i) * at(k, j, head, i);
      weights[j] = dot * static_cast<double>(scale());
      max = std::max(max, weights[j]);
    }
    double sum = 0.0;
    for (double& weight : weights) sum += weight = std::exp(weight - max);
    std::vector<double> out(len);
    for (size_t j = 0; j < n; ++j)
      for (size_t i = 0; i < len; ++i) out[i] += weights[j] / sum * at(v, j, head, i);
    return out;
  }

  size_t n;
  size_t len;
  size_t stride;
  std::vector<float> q;
  std::vector<float> k;
  std::vector<float> v;
};

class EncoderAttention : public testing::TestWithParam<Kernel> {};

TEST_P(EncoderAttention, EqualsTheWeightedMeanOfValues) {
  // The weights are rounded, too: by at most 1 / 512 of a weighted mean of values up to 4.
  const double tolerance = GetParam().in_bf16 ? 4.0 / 512 : 1e-5;
  for (const size_t len : {8u, 24u, 32u, 40u, 64u, 72u}) {
    for (const size_t n : {1u, 2u, 7u, 13u, 16u, 17u, 43u, 96u, 131u, 290u}) {
      Text text(n, len);
      if (GetParam().in_bf16) text.round_to_bf16();
      for (const size_t head : {0u, 2u}) {
        const std::vector<float> found = text.attended(GetParam(), head, 0, n);
        for (size_t token = 0; token < n; ++token) {
          const std::vector<double> expected = text.expected(token, head);
          for (size_t i = 0; i < len; ++i) {
            ASSERT_NEAR(text.at(found, token, head, i), expected[i], tolerance)
                << n << " tokens, heads of " << len << ", token " << token;
          }
          for (size_t i = 0; i < len; ++i)
            ASSERT_EQ(text.at(found, token, 1, i), -7.0) << "wrote into another head";
        }
      }
    }
  }
}

TEST_P(EncoderAttention, RowBitsDoNotDependOnOtherRows) {
  for (const size_t n : {5u, 43u, 100u, 290u}) {
    const Text text(n, 32, 1);
    const std::vector<float> all = text.attended(GetParam(), 0, 0, n);
    for (size_t begin = 0; begin < n;) {
      const size_t end = std::min(n, begin + 1 + begin % 7);
      const std::vector<float> some = text.attended(GetParam(), 0, begin, end);
      for (size_t i = begin * 32; i < end * 32; ++i) ASSERT_EQ(some[i], all[i]);
      begin = end;
    }
  }
}

TEST_P(EncoderAttention, SV_8_NaNStaysVisible) {
  Text text(20, 32, 1);
  text.k[7 * 32 + 3] = std::nanf("");
  text.v[7 * 32 + 3] = std::nanf("");
  const std::vector<float> found = text.attended(GetParam(), 0, 0, 20);
  for (size_t token = 0; token < 20; ++token) EXPECT_TRUE(std::isnan(found[token * 32 + 3]));
}

INSTANTIATE_TEST_SUITE_P(Isa, EncoderAttention, testing::ValuesIn(all_kernels()),
                         [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace billow::kernels
