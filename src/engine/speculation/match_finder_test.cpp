#include "engine/speculation/match_finder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace billow::engine {
namespace {

using Tokens = std::vector<int32_t>;

// Reference: calculates the longest match by checking every position. In `history`, -1 is a border.
size_t longest_match(const Tokens& history, const Tokens& text, size_t max_window) {
  const size_t begin = history.size() - std::min(history.size(), max_window);
  size_t best = 0;
  for (size_t next = begin + 1; next < history.size(); ++next) {
    if (history[next] < 0) continue;
    size_t n = 0;
    while (n < std::min(text.size(), next - begin) && n < MatchFinder::kMaxMatch &&
           history[next - 1 - n] == text[text.size() - 1 - n])
      ++n;
    best = std::max(best, n);
  }
  return best;
}

Tokens random_text(std::mt19937& random, size_t n, unsigned n_kinds) {
  Tokens text(n);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % n_kinds);
  return text;
}

TEST(MatchFinder, FindsTheLongestMatchOfRandomTexts) {
  std::mt19937 random(1);
  for (const size_t max_window : {1000u, 60u, 7u}) {
    MatchFinder finder(max_window);
    Tokens history;
    size_t n_found = 0;
    for (int i = 0; i < 400; ++i) {
      const int32_t token = static_cast<int32_t>(random() % 40);
      history.push_back(random() % 30 == 0 ? -1 : token);
      history.back() < 0 ? finder.add_border() : finder.add(token);
      const Tokens text = {history.end() - static_cast<long>(std::min<size_t>(9, history.size())),
                           history.end()};
      if (text.back() < 0) continue;
      const std::optional<Match> match = finder.find(text);
      const size_t expected = longest_match(history, text, max_window);
      ASSERT_EQ(match.has_value(), expected >= MatchFinder::kMinMatch) << i;
      if (!match) continue;
      ++n_found;
      ASSERT_EQ(match->length, expected) << i;
      ASSERT_LT(match->next, finder.end());
      ASSERT_EQ(finder.at(match->next), history[match->next]);
    }
    EXPECT_GE(n_found, max_window == 7 ? 0u : 10u);
  }
}

TEST(MatchFinder, FindsTheContinuationOfACopy) {
  std::mt19937 random(2);
  MatchFinder finder(1 << 16);
  Tokens text = random_text(random, 3000, 500);
  for (const int32_t token : text) finder.add(token);
  for (size_t from : {0u, 1000u, 2500u}) {
    Tokens copy(text.begin() + static_cast<long>(from),
                text.begin() + static_cast<long>(from) + 40);
    for (size_t n = MatchFinder::kMinMatch; n < copy.size(); ++n) {
      const auto match = finder.find(std::span(copy).first(n));
      ASSERT_TRUE(match.has_value());
      if (n >= 6) {
        EXPECT_EQ(match->next, from + n);
        EXPECT_EQ(match->length, std::min(n, MatchFinder::kMaxMatch));
      }
    }
  }
}

TEST(MatchFinder, PrefersTheLatestOfEquallyLongMatches) {
  MatchFinder finder(100);
  for (const int32_t token : {1, 2, 3, 9, 1, 2, 4, 9, 1, 2, 5, 8}) finder.add(token);
  const Tokens text = {7, 1, 2};
  EXPECT_EQ(finder.at(finder.find(text)->next), 5);
}

TEST(MatchFinder, CrossesNoBorderAndDropsTokensOutsideTheWindow) {
  MatchFinder finder(8);
  finder.add(1);
  finder.add(2);
  finder.add_border();
  finder.add(3);
  EXPECT_FALSE(finder.find(Tokens{1, 2}).has_value());  // no token follows
  EXPECT_FALSE(finder.find(Tokens{2, 3}).has_value());
  finder.add(4);
  finder.add(5);
  EXPECT_EQ(finder.at(finder.find(Tokens{3, 4})->next), 5);
  for (int32_t token = 10; token < 16; ++token) finder.add(token);
  EXPECT_FALSE(finder.find(Tokens{3, 4}).has_value());
  EXPECT_EQ(finder.end(), 12u);
  EXPECT_EQ(finder.begin(), 4u);
}

TEST(MatchFinder, NearMatchesMayBeShortButNotFar) {
  MatchFinder finder(100);
  for (int32_t token = 0; token < 60; ++token) finder.add(token);
  EXPECT_EQ(finder.find_near(Tokens{99, 30}, 33, 4)->next, 31u);
  EXPECT_FALSE(finder.find_near(Tokens{99, 30}, 40, 4).has_value());
  EXPECT_FALSE(finder.find_near(Tokens{99, 59}, 60, 4).has_value());  // no token follows
  EXPECT_EQ(finder.find_near(Tokens{99, 2}, 0, 4)->next, 3u);
}

TEST(MatchFinder, WithoutTokensFindsNothing) {
  const MatchFinder finder(10);
  EXPECT_FALSE(finder.find(Tokens{}).has_value());
  EXPECT_FALSE(finder.find(Tokens{1, 2, 3, 4, 5, 6, 7}).has_value());
  EXPECT_FALSE(finder.find_near(Tokens{1}, 0, 5).has_value());
}

}  // namespace
}  // namespace billow::engine
