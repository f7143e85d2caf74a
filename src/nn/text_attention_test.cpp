#include "nn/text_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/test_data.h"

namespace billow::nn {
namespace {

constexpr size_t kHeads = 3;
constexpr size_t kLen = 24;

// Of texts of these lengths, all rows random.
std::vector<float> attended(std::span<const size_t> lengths, std::vector<float> qkv,
                            int n_threads) {
  std::vector<uint32_t> ends;
  size_t n = 0;
  for (const size_t length : lengths) ends.push_back(static_cast<uint32_t>(n += length));
  cpu::ThreadTeam team(n_threads);
  tensor::Arena arena;
  const Compute compute{kernels::select_table(), team, arena};
  const size_t width = kHeads * kLen;
  const auto part = [&](size_t i) { return tensor::Matrix{qkv.data() + i * n * width, n, width}; };
  std::vector<float> out(n * width);
  text_attention(compute, text_units(ends, kHeads),
                 {.head_len = kLen, .scale = 0.2f, .q = part(0), .k = part(1), .v = part(2)},
                 {out.data(), n, width});
  EXPECT_LE(arena.n_bytes(), (static_cast<size_t>(n_threads) *
                                  text_attention_bytes(*std::ranges::max_element(lengths), kLen) +
                              tensor::Arena::kPage - 1) /
                                 tensor::Arena::kPage * tensor::Arena::kPage);
  return out;
}

// What a text would be given alone.
std::vector<float> alone(const std::vector<float>& qkv, size_t n, size_t begin, size_t length) {
  const size_t width = kHeads * kLen;
  std::vector<float> own;
  for (size_t i = 0; i < 3; ++i) {
    const auto first = qkv.begin() + static_cast<std::ptrdiff_t>((i * n + begin) * width);
    own.insert(own.end(), first, first + static_cast<std::ptrdiff_t>(length * width));
  }
  const size_t lengths[] = {length};
  return attended(lengths, own, 1);
}

TEST(TextAttention, EQ_1_EQ_3_ATextsBitsAreItsOwnInAnyCompanyOnAnyThreads) {
  const size_t lengths[] = {1, 7, 300, 43, 2, 16, 600, 5};
  size_t n = 0;
  for (const size_t length : lengths) n += length;
  const std::vector<float> qkv = gaussian(3 * n * kHeads * kLen, 1);
  const std::vector<float> together = attended(lengths, qkv, 1);
  EXPECT_EQ(attended(lengths, qkv, 2), together);
  EXPECT_EQ(attended(lengths, qkv, 5), together);
  size_t begin = 0;
  for (const size_t length : lengths) {
    const std::vector<float> own = alone(qkv, n, begin, length);
    EXPECT_TRUE(std::equal(own.begin(), own.end(),
                           together.begin() + static_cast<std::ptrdiff_t>(begin * kHeads * kLen)))
        << length;
    begin += length;
  }
}

TEST(TextAttention, UnitsCoverEachQueryOfEachHeadOnce) {
  const uint32_t ends[] = {1, 258, 1300};
  std::vector<int> seen(1300 * 2);
  for (const TextUnit& unit : text_units(ends, 2)) {
    EXPECT_LT(unit.query_begin, unit.query_end);
    EXPECT_LE(unit.begin + unit.query_end, unit.end);
    for (uint32_t i = unit.query_begin; i < unit.query_end; ++i)
      ++seen[(unit.begin + i) * 2 + unit.head];
  }
  EXPECT_TRUE(std::ranges::all_of(seen, [](int n) { return n == 1; }));
}

}  // namespace
}  // namespace billow::nn
