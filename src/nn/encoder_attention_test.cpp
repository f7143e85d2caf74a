#include "nn/encoder_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kHeads = 3;
constexpr size_t kLen = 24;

struct Sight {
  size_t reach = 0;
  std::vector<float> slopes = {};
};

// Returns the attention of texts of these lengths.
std::vector<float> attended(std::span<const size_t> lengths, std::vector<float> qkv, int n_threads,
                            const Sight& sight = {}) {
  std::vector<uint32_t> ends;
  size_t n = 0;
  for (const size_t length : lengths) ends.push_back(static_cast<uint32_t>(n += length));
  cpu::ThreadTeam team(n_threads);
  tensor::Arena arena;
  const Compute compute{kernels::select_table(), team, arena};
  const size_t width = kHeads * kLen;
  const auto part = [&](size_t i) { return tensor::Matrix{qkv.data() + i * n * width, n, width}; };
  std::vector<float> out(n * width);
  const TextHeads heads = {.head_len = kLen,
                           .scale = 0.2f,
                           .q = part(0),
                           .k = part(1),
                           .v = part(2),
                           .reach = sight.reach,
                           .slopes = sight.slopes.empty() ? nullptr : sight.slopes.data()};
  encoder_attention(compute, text_units(ends, kHeads, static_cast<size_t>(n_threads)), heads,
                    {out.data(), n, width});
  tensor::Arena counted{tensor::Arena::Counting{}};
  const Sizing sizing = {.n_positions = *std::ranges::max_element(lengths),
                         .n_threads = static_cast<size_t>(n_threads)};
  encoder_attention({compute.kernels, team, counted, &sizing}, {}, heads, {out.data(), n, width});
  EXPECT_EQ(arena.n_bytes(), counted.n_bytes());
  return out;
}

// Returns the result of a text that is alone in its pass.
std::vector<float> alone(const std::vector<float>& qkv, size_t n, size_t begin, size_t length,
                         const Sight& sight) {
  const size_t width = kHeads * kLen;
  std::vector<float> own;
  for (size_t i = 0; i < 3; ++i) {
    const auto first = qkv.begin() + static_cast<std::ptrdiff_t>((i * n + begin) * width);
    own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(length * width));
  }
  const size_t lengths[] = {length};
  return attended(lengths, own, 1, sight);
}

TEST(EncoderAttention, EQ_1_EQ_3_TextHasTheSameBitsWithAnyTextsAndThreads) {
  const size_t lengths[] = {1, 7, 300, 43, 2, 16, 600, 5};
  size_t n = 0;
  for (const size_t length : lengths) n += length;
  const std::vector<float> qkv = gaussian(3 * n * kHeads * kLen, 1);
  for (const Sight& sight : {Sight{}, Sight{.reach = 20}, Sight{.slopes = {0.5f, 0.25f, 0.1f}}}) {
    const std::vector<float> together = attended(lengths, qkv, 1, sight);
    EXPECT_EQ(attended(lengths, qkv, 2, sight), together);
    EXPECT_EQ(attended(lengths, qkv, 5, sight), together);
    size_t begin = 0;
    for (const size_t length : lengths) {
      const std::vector<float> own = alone(qkv, n, begin, length, sight);
      EXPECT_TRUE(std::equal(own.begin(), own.end(),
                             together.begin() + static_cast<std::ptrdiff_t>(begin * kHeads * kLen)))
          << length;
      begin += length;
    }
  }
}

// Computes the formula in double, for one text.
std::vector<double> formula(const std::vector<float>& qkv, size_t n, const Sight& sight) {
  constexpr size_t kWidth = kHeads * kLen;
  const auto value = [&](size_t part, size_t row, size_t at) {
    return static_cast<double>(qkv[(part * n + row) * kWidth + at]);
  };
  std::vector<double> out(n * kWidth);
  for (size_t head = 0; head < kHeads; ++head) {
    for (size_t query = 0; query < n; ++query) {
      double sum = 0.0;
      for (size_t key = 0; key < n; ++key) {
        const size_t distance = key < query ? query - key : key - query;
        if (sight.reach != 0 && distance > sight.reach) continue;
        double score = 0.0;
        for (size_t i = head * kLen; i < (head + 1) * kLen; ++i)
          score += 0.2 * value(0, query, i) * value(1, key, i);
        if (!sight.slopes.empty())
          score -= static_cast<double>(sight.slopes[head]) * static_cast<double>(distance);
        sum += std::exp(score);
        for (size_t i = head * kLen; i < (head + 1) * kLen; ++i)
          out[query * kWidth + i] += std::exp(score) * value(2, key, i);
      }
      for (size_t i = head * kLen; i < (head + 1) * kLen; ++i) out[query * kWidth + i] /= sum;
    }
  }
  return out;
}

TEST(EncoderAttention, EqualsTheFormula) {
  // With a window of 4 on either side, 5 tokens all see each other, but 6 do not.
  for (const size_t n : {size_t{1}, size_t{5}, size_t{6}, size_t{300}}) {
    const std::vector<float> qkv = gaussian(3 * n * kHeads * kLen, 7);
    const size_t lengths[] = {n};
    for (const Sight& sight :
         {Sight{}, Sight{.reach = 4}, Sight{.slopes = {0.5f, 0.25f, 0.1f}},
          Sight{.reach = 4, .slopes = {0.5f, 0.25f, 0.1f}}, Sight{.slopes = {0.0f, 0.0f, 0.0f}}}) {
      const std::vector<float> found = attended(lengths, qkv, 2, sight);
      const std::vector<double> expected = formula(qkv, n, sight);
      for (size_t i = 0; i < found.size(); ++i)
        ASSERT_NEAR(static_cast<double>(found[i]), expected[i], 1e-5) << n << " " << sight.reach;
    }
  }
}

// Of four query heads, two share the first KV head, and two share the second.
TEST(EncoderAttention, AdjacentHeadsShareKeysAndValues) {
  constexpr size_t kTokens = 30;
  constexpr size_t kQueryHeads = 4;
  std::vector<float> q = gaussian(kTokens * kQueryHeads * kLen, 1);
  std::vector<float> k = gaussian(kTokens * 2 * kLen, 2);
  std::vector<float> v = gaussian(kTokens * 2 * kLen, 3);
  const auto widened = [](const std::vector<float>& few) {
    std::vector<float> all;
    for (size_t row = 0; row < kTokens; ++row)
      for (const size_t head : {0u, 0u, 1u, 1u})
        for (size_t i = 0; i < kLen; ++i) all.push_back(few[(row * 2 + head) * kLen + i]);
    return all;
  };
  std::vector<float> all_k = widened(k);
  std::vector<float> all_v = widened(v);
  const auto run = [&](std::vector<float>& keys, std::vector<float>& values) {
    cpu::ThreadTeam team(2);
    tensor::Arena arena;
    const uint32_t ends[] = {kTokens};
    std::vector<float> out(q.size());
    const size_t width = keys.size() / kTokens;
    encoder_attention({kernels::select_table(), team, arena}, text_units(ends, kQueryHeads, 1),
                      {.head_len = kLen,
                       .q = {q.data(), kTokens, kQueryHeads * kLen},
                       .k = {keys.data(), kTokens, width},
                       .v = {values.data(), kTokens, width}},
                      {out.data(), kTokens, kQueryHeads * kLen});
    return out;
  };
  EXPECT_EQ(run(k, v), run(all_k, all_v));
}

TEST(EncoderAttention, UnitsCoverEachQueryOfEachHeadOnce) {
  const uint32_t ends[] = {1, 258, 1300};
  for (const size_t n_threads : {1u, 2u, 64u}) {
    std::vector<int> seen(1300 * 2);
    for (const TextUnit& unit : text_units(ends, 2, n_threads)) {
      EXPECT_LT(unit.query_begin, unit.query_end);
      EXPECT_LE(unit.begin + unit.query_end, unit.end);
      for (uint32_t i = unit.query_begin; i < unit.query_end; ++i)
        ++seen[(unit.begin + i) * 2 + unit.head];
    }
    EXPECT_TRUE(std::ranges::all_of(seen, [](int n) { return n == 1; })) << n_threads;
  }
  EXPECT_GT(text_units(ends, 2, 64).size(), text_units(ends, 2, 1).size());
}

}  // namespace
}  // namespace billow::nn
