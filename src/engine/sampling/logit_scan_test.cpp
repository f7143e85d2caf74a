#include "engine/sampling/logit_scan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampling/random.h"

namespace billow::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMaxFloat = std::numeric_limits<float>::max();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Returns a row of n logits. It has few distinct values, so that many are equal, and some that are
// not finite.
std::vector<float> random_row(size_t n, Random& random, bool with_oddities) {
  std::vector<float> row(n);
  for (float& value : row) {
    value = static_cast<float>(std::floor(random.uniform() * 60.0)) * 0.37f - 10.0f;
    if (!with_oddities) continue;
    const double kind = random.uniform();
    if (kind < 0.1) value = -kInfinity;
    if (kind > 0.9) value = kNan;
  }
  return row;
}

std::vector<Candidate> sorted_reference(const std::vector<float>& row) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] > -kInfinity) all.push_back({std::min(row[i], kMaxFloat), static_cast<int32_t>(i)});
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  });
  return all;
}

void expect_same(const std::vector<Candidate>& a, const std::vector<Candidate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].token, b[i].token) << i;
    ASSERT_EQ(a[i].logit, b[i].logit) << i;
  }
}

constexpr size_t kLengths[] = {1, 2, 15, 16, 17, 127, 128, 129, 500, 2048, 2049, 6000};

TEST(LogitScan, TopEqualsAFullSort) {
  Random random(1);
  LogitScan scan;
  std::vector<Candidate> found;
  for (const size_t n : kLengths) {
    for (const bool with_oddities : {false, true}) {
      const std::vector<float> row = random_row(n, random, with_oddities);
      std::vector<Candidate> expected = sorted_reference(row);
      scan.read(row);
      ASSERT_EQ(scan.has_finite(), !expected.empty());
      if (expected.empty()) continue;
      EXPECT_EQ(scan.arg_max(), expected[0].token);
      EXPECT_EQ(scan.max(), expected[0].logit);
      for (const size_t k :
           {n + 5, n, size_t{1000}, size_t{47}, size_t{40}, size_t{3}, size_t{1}}) {
        scan.top(k, found);
        if (expected.size() > k) expected.resize(k);
        expect_same(found, expected);
        std::vector<Candidate> by_token = expected;
        std::sort(by_token.begin(), by_token.end(),
                  [](const auto& a, const auto& b) { return a.token < b.token; });
        scan.top_by_token(k, found);
        expect_same(found, by_token);
      }
    }
  }
}

TEST(LogitScan, AtLeastListsByToken) {
  Random random(2);
  LogitScan scan;
  std::vector<Candidate> found;
  for (const size_t n : kLengths) {
    const std::vector<float> row = random_row(n, random, true);
    scan.read(row);
    for (const float threshold : {-kInfinity, -3.0f, row[n / 2], 11.0f, 1000.0f}) {
      if (std::isnan(threshold)) continue;
      std::vector<Candidate> expected;
      for (size_t i = 0; i < n; ++i) {
        if (row[i] >= threshold && row[i] > -kInfinity)
          expected.push_back({row[i], static_cast<int32_t>(i)});
      }
      scan.at_least(threshold, found);
      expect_same(found, expected);
    }
  }
}

TEST(LogitScan, SumExpIsPreciseAtEveryScale) {
  Random random(3);
  LogitScan scan;
  for (const size_t n : kLengths) {
    std::vector<float> row(n);
    for (float& value : row) value = static_cast<float>(random.uniform() * 40.0 - 25.0);
    scan.read(row);
    for (const float scale : {0.0f, 0.01f, 0.5f, 1.0f, 1.25f, 20.0f, 1e30f}) {
      double expected = 0.0;
      for (const float value : row) {
        expected += std::exp((static_cast<double>(value) - static_cast<double>(scan.max())) *
                             static_cast<double>(scale));
      }
      EXPECT_NEAR(scan.sum_exp(scale) / expected, 1.0, 1e-6) << n << " at " << scale;
    }
  }
}

TEST(LogitScan, NanAndInfinitiesAreRanked) {
  LogitScan scan;
  std::vector<Candidate> found;
  const std::vector<float> row = {kNan, -kInfinity, 1.0f, kInfinity, kMaxFloat, -kMaxFloat, kNan};
  scan.read(row);
  EXPECT_EQ(scan.arg_max(), 3);
  EXPECT_EQ(scan.max(), kMaxFloat);
  EXPECT_NEAR(scan.sum_exp(1.0f), 2.0, 1e-6);
  EXPECT_NEAR(scan.sum_exp(0.0f), 4.0, 4.0);  // meaningless, but finite
  scan.top(10, found);
  expect_same(found, {{kMaxFloat, 3}, {kMaxFloat, 4}, {1.0f, 2}, {-kMaxFloat, 5}});
  for (const float value : {kNan, -kInfinity}) {
    const std::vector<float> nothing(300, value);
    scan.read(nothing);
    EXPECT_FALSE(scan.has_finite());
  }
}

TEST(LogitScan, EqualLogitsAreOrderedByToken) {
  LogitScan scan;
  std::vector<Candidate> found;
  const std::vector<float> row(5000, 2.5f);
  scan.read(row);
  EXPECT_EQ(scan.arg_max(), 0);
  scan.top(5, found);
  expect_same(found, {{2.5f, 0}, {2.5f, 1}, {2.5f, 2}, {2.5f, 3}, {2.5f, 4}});
  EXPECT_NEAR(scan.sum_exp(1.0f), 5000.0, 1e-3);
}

}  // namespace
}  // namespace billow::engine
