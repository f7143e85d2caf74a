#include "engine/embed/pool_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace billow::engine {
namespace {

std::vector<float> pooled(Pooling pooling, const std::vector<float>& rows, size_t n_embd) {
  const size_t n = rows.size() / n_embd;
  std::vector<float> out(pooled_length(pooling, n, n_embd));
  pool_rows(pooling, rows.data(), n, n_embd, out.data());
  return out;
}

TEST(EncoderPooling, PoolsAsNamed) {
  const std::vector<float> rows = {1, 2, 5, -2, 0, 3};
  EXPECT_EQ(pooled(Pooling::kMean, rows, 2), (std::vector<float>{2, 1}));
  EXPECT_EQ(pooled(Pooling::kFirst, rows, 2), (std::vector<float>{1, 2}));
  EXPECT_EQ(pooled(Pooling::kLast, rows, 2), (std::vector<float>{0, 3}));
  EXPECT_EQ(pooled(Pooling::kMax, rows, 2), (std::vector<float>{5, 3}));
  EXPECT_EQ(pooled(Pooling::kNone, rows, 2), rows);
}

TEST(EncoderPooling, MeansOfWideRowsAreComplete) {
  constexpr size_t kWidth = 150;
  std::vector<float> rows(3 * kWidth);
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
  const std::vector<float> mean = pooled(Pooling::kMean, rows, kWidth);
  for (size_t i = 0; i < kWidth; ++i) EXPECT_EQ(mean[i], static_cast<float>(i + kWidth));
}

TEST(EncoderPooling, SV_8_ZerosStayZerosAndValuesThatAreNotFiniteAreFound) {
  const std::vector<float> zeros(8);
  EXPECT_EQ(pooled(Pooling::kMean, zeros, 4), std::vector<float>(4));
  EXPECT_TRUE(all_finite(zeros));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const Pooling pooling : {Pooling::kMean, Pooling::kMax, Pooling::kNone}) {
    for (const std::vector<float>& rows : {std::vector<float>{nan, 1, 2, 3}, {1, 2, nan, 3}})
      EXPECT_FALSE(all_finite(pooled(pooling, rows, 2))) << pooling_name(pooling);
  }
  const float all[] = {1, std::numeric_limits<float>::infinity()};
  EXPECT_FALSE(all_finite(all));
}

}  // namespace
}  // namespace billow::engine
