#include "engine/sampling/stop_strings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/sampling/random.h"

namespace billow::engine {
namespace {

// The result by definition: checks every prefix in turn.
struct Expected {
  std::string text;             // returned after the prefix
  std::optional<size_t> which;  // after a stop
};

std::vector<Expected> expected_after_each_byte(const std::string& text,
                                               const std::vector<std::string>& list) {
  std::vector<Expected> result = {{"", std::nullopt}};
  for (size_t n = 1; n <= text.size(); ++n) {
    if (result.back().which) {
      result.push_back(result.back());
      continue;
    }
    const std::string seen = text.substr(0, n);
    Expected now;
    size_t n_longest = 0;
    size_t n_held = 0;
    for (size_t i = 0; i < list.size(); ++i) {
      if (!list[i].empty() && list[i].size() > n_longest && seen.ends_with(list[i])) {
        n_longest = list[i].size();
        now.which = i;
      }
      for (size_t m = 1; m < list[i].size(); ++m) {
        if (seen.ends_with(list[i].substr(0, m))) n_held = std::max(n_held, m);
      }
    }
    now.text = seen.substr(0, n - (now.which ? n_longest : n_held));
    result.push_back(now);
  }
  return result;
}

// Checks every way to split the text into pieces, after every piece.
void check_all_cuts(const std::string& text, const std::vector<std::string>& list) {
  const std::vector<Expected> expected = expected_after_each_byte(text, list);
  for (uint32_t cuts = 0; cuts < (1u << (text.size() - 1)); ++cuts) {
    StopStrings stops(list);
    std::string passed;
    size_t begin = 0;
    for (size_t end = 1; end <= text.size(); ++end) {
      if (end < text.size() && (cuts >> (end - 1) & 1) == 0) continue;
      passed += stops.feed(std::string_view(text).substr(begin, end - begin));
      begin = end;
      ASSERT_EQ(passed, expected[end].text) << text << " cut " << cuts << " after " << end;
      ASSERT_EQ(stops.which(), expected[end].which);
      ASSERT_EQ(stops.found(), expected[end].which ? list[*expected[end].which] : "");
      ASSERT_EQ(stops.stopped(), expected[end].which.has_value());
    }
    passed += stops.flush();
    ASSERT_EQ(passed, expected.back().which ? expected.back().text : text);
    ASSERT_EQ(stops.flush(), "");
  }
}

std::string random_text(Random& random, size_t n_max, int n_letters, bool may_be_empty) {
  const auto n =
      static_cast<size_t>(random.uniform() * static_cast<double>(n_max)) + (may_be_empty ? 0 : 1);
  std::string text;
  for (size_t i = 0; i < n; ++i)
    text.push_back(static_cast<char>('a' + static_cast<int>(random.uniform() * n_letters)));
  return text;
}

TEST(StopStrings, EveryCutOfRandomTextsGivesTheTextBeforeTheFirstMatch) {
  Random random(41);
  for (int round = 0; round < 1500; ++round) {
    const int n_letters = 2 + round % 2;
    std::vector<std::string> list;
    const auto n_strings = static_cast<size_t>(random.uniform() * 4.0);
    for (size_t i = 0; i < n_strings; ++i) list.push_back(random_text(random, 6, n_letters, true));
    check_all_cuts(random_text(random, 10, n_letters, false), list);
    if (HasFatalFailure()) return;
  }
}

TEST(StopStrings, EveryTextOfTwoLettersWithEveryStopStringUpToFour) {
  for (size_t n_stop = 1; n_stop <= 4; ++n_stop) {
    for (uint32_t stop = 0; stop < (1u << n_stop); ++stop) {
      std::string stop_string;
      for (size_t i = 0; i < n_stop; ++i) stop_string.push_back(stop >> i & 1 ? 'b' : 'a');
      for (uint32_t bits = 0; bits < 128; ++bits) {
        std::string text;
        for (size_t i = 0; i < 7; ++i) text.push_back(bits >> i & 1 ? 'b' : 'a');
        check_all_cuts(text, {stop_string});
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(StopStrings, WithoutStopStringsAllTextIsReturnedImmediately) {
  for (const std::vector<std::string>& list :
       {std::vector<std::string>{}, std::vector<std::string>{"", ""}}) {
    StopStrings stops(list);
    EXPECT_EQ(stops.feed("some "), "some ");
    EXPECT_EQ(stops.feed(""), "");
    EXPECT_EQ(stops.feed("text"), "text");
    EXPECT_FALSE(stops.stopped());
    EXPECT_EQ(stops.flush(), "");
  }
}

TEST(StopStrings, HoldsBackOnlyPossibleStopStrings) {
  StopStrings stops({"", "</end>", "\n\n"});
  EXPECT_EQ(stops.feed("a <"), "a ");
  EXPECT_EQ(stops.feed("/e"), "");
  EXPECT_EQ(stops.feed("x\n"), "</ex");
  EXPECT_EQ(stops.feed("y"), "\ny");
  EXPECT_EQ(stops.feed("</en"), "");
  EXPECT_EQ(stops.feed("d> more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.which(), 1u);
  EXPECT_EQ(stops.feed("even more"), "");
  EXPECT_EQ(stops.flush(), "");
}

TEST(StopStrings, TheFirstCompleteOneWinsThenTheLongest) {
  StopStrings inner({"abcd", "bc"});
  EXPECT_EQ(inner.feed("xabcd"), "xa");
  EXPECT_EQ(inner.which(), 1u);
  StopStrings longest({"c", "abc", "bc", "abc"});
  EXPECT_EQ(longest.feed("xabc"), "x");
  EXPECT_EQ(longest.which(), 1u);
}

TEST(StopStrings, FlushStartsANewText) {
  StopStrings stops({"ab"});
  EXPECT_EQ(stops.feed("a"), "");
  EXPECT_EQ(stops.flush(), "a");
  EXPECT_EQ(stops.feed("b"), "b");
  EXPECT_FALSE(stops.stopped());
}

TEST(StopStrings, WorksOnBytesOfEveryValue) {
  const std::string stop("\xE2\x80\x94\0\xFF", 5);
  StopStrings stops({stop});
  std::string passed;
  for (const char byte : "x\xE2\x80\xE2\x80\x94\0" + std::string("y") + stop)
    passed += stops.feed({&byte, 1});
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(passed, "x\xE2\x80\xE2\x80\x94y");
}

TEST(StopStrings, ManyLongRepetitiveStringsStayFast) {
  std::vector<std::string> list;
  for (int i = 0; i < 20; ++i) list.push_back(std::string(20000, 'a') + static_cast<char>('A' + i));
  StopStrings stops(list);
  size_t n_passed = 0;
  for (int i = 0; i < 1000; ++i) n_passed += stops.feed(std::string(100, 'a')).size();
  EXPECT_EQ(n_passed, 100000u - 20000u);
  EXPECT_EQ(stops.feed("C tail"), "");
  EXPECT_EQ(stops.which(), 2u);
}

}  // namespace
}  // namespace billow::engine
