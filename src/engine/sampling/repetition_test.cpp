#include "engine/sampling/repetition.h"

#include <gtest/gtest.h>

#include <random>

namespace billow::engine {
namespace {

std::vector<int32_t> repeated(const std::vector<int32_t>& text, size_t n) {
  std::vector<int32_t> tokens;
  while (tokens.size() < n) tokens.push_back(text[tokens.size() % text.size()]);
  return tokens;
}

TEST(Repetition, NeedsEightRepetitions) {
  EXPECT_TRUE(is_repetition(repeated({1}, 8)));
  EXPECT_TRUE(is_repetition(repeated({1, 2, 1, 3}, 32)));
  EXPECT_FALSE(is_repetition(repeated({1, 2, 1, 3}, 31))) << "less than eight times";
  std::vector<int32_t> tokens = repeated({1, 2, 3}, 300);
  EXPECT_TRUE(is_repetition(tokens));
  tokens[150] = 9;
  EXPECT_FALSE(is_repetition(tokens));
  EXPECT_FALSE(is_repetition({}));
}

TEST(Repetition, EqualsAPlainComparison) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<int32_t> text(1 + random() % 6);
    for (int32_t& token : text) token = static_cast<int32_t>(random() % 2);
    std::vector<int32_t> tokens = repeated(text, 1 + random() % 60);
    if (random() % 2 == 0) tokens[random() % tokens.size()] = static_cast<int32_t>(random() % 2);
    bool expected = false;
    for (size_t period = 1; period * kMinRepetitions <= tokens.size(); ++period) {
      bool holds = true;
      for (size_t i = period; i < tokens.size(); ++i)
        holds = holds && tokens[i] == tokens[i - period];
      expected = expected || holds;
    }
    EXPECT_EQ(is_repetition(tokens), expected);
  }
}

TEST(RepetitionWatch, ChecksOnlyTheLastTokens) {
  RepetitionWatch watch;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) EXPECT_FALSE(watch.add(static_cast<int32_t>(random() % 1000)));
  size_t n = 0;
  while (!watch.add(static_cast<int32_t>(n % 100))) {
    ++n;
    ASSERT_LT(n, 2 * kRepetitionWindow);
  }
  EXPECT_GE(n + 1, kRepetitionWindow);
  RepetitionWatch longer;
  for (size_t i = 0; i < 5000; ++i) EXPECT_FALSE(longer.add(static_cast<int32_t>(i % 129)));
}

}  // namespace
}  // namespace billow::engine
