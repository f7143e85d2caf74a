#include "engine/speculation/drafter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

namespace billow::engine {
namespace {

using Tokens = std::vector<int32_t>;

// Generates `answer` after `prompt` like an engine that compares max_draft tokens in each pass.
// Returns the number of passes.
size_t write(const Tokens& prompt, const Tokens& answer, const MatchFinder& recent,
             const Tokens& prediction = {}, size_t max_draft = 16) {
  Drafter drafter(recent, prediction);
  Tokens text = prompt;
  size_t n_passes = 0;
  for (size_t n = 0; n < answer.size(); ++n_passes) {
    const Draft draft = drafter.propose(text, max_draft);
    EXPECT_EQ(draft.tokens.size(), draft.chances.size());
    EXPECT_TRUE(std::ranges::is_sorted(draft.chances, std::ranges::greater()));
    size_t n_accepted = 0;
    while (n_accepted < draft.tokens.size() && n + n_accepted < answer.size() &&
           draft.tokens[n_accepted] == answer[n + n_accepted])
      ++n_accepted;
    const size_t n_compared = std::min({draft.tokens.size(), n_accepted + 1, answer.size() - n});
    const size_t n_written = std::min(n_accepted + 1, answer.size() - n);
    text.insert(text.end(), answer.begin() + static_cast<long>(n),
                answer.begin() + static_cast<long>(n + n_written));
    n += n_written;
    drafter.learn(draft, n_compared, n_accepted == n_compared);
  }
  return n_passes;
}

Tokens random_text(unsigned seed, size_t n) {
  std::mt19937 random(seed);
  Tokens text(n);
  for (int32_t& token : text) token = static_cast<int32_t>(random() % 5000);
  return text;
}

TEST(Drafter, CopiesAPromptInFewPasses) {
  const MatchFinder recent(1);
  const Tokens file = random_text(1, 800);
  EXPECT_LT(write(file, file, recent), 75u);
}

// Every 40th token is replaced, removed, or has a new token before it.
TEST(Drafter, FindsItsPlaceAgainAfterAnEdit) {
  const MatchFinder recent(1);
  const Tokens file = random_text(2, 800);
  Tokens edited;
  for (size_t i = 0; i < file.size(); ++i) {
    if (i % 40 != 39)
      edited.push_back(file[i]);
    else if (i % 3 == 0)
      edited.push_back(6000);
    else if (i % 3 == 1)
      edited.insert(edited.end(), {7000, file[i]});
  }
  EXPECT_LT(write(file, edited, recent), 180u);
}

TEST(Drafter, ContinuesARepetition) {
  const MatchFinder recent(1);
  Tokens answer;
  for (int i = 0; i < 100; ++i) answer.insert(answer.end(), {1, 2, 3});
  EXPECT_LT(write({9}, answer, recent), 40u);
}

TEST(Drafter, DraftsNothingForATextWithoutRepetition) {
  const MatchFinder recent(1);
  Tokens answer(500);
  std::iota(answer.begin(), answer.end(), 0);
  EXPECT_EQ(write({1000, 1001}, answer, recent), 500u);
}

TEST(Drafter, UsesAPredictionAndTheAnswersOfOthers) {
  const Tokens answer = random_text(3, 400);
  const MatchFinder none(1);
  EXPECT_EQ(write({9, 8}, answer, none), 400u);
  EXPECT_LT(write({9, 8}, answer, none, answer), 60u);
  MatchFinder recent(1000);
  recent.add(9);
  recent.add(8);
  for (const int32_t token : answer) recent.add(token);
  recent.add_border();
  EXPECT_LT(write({9, 8}, answer, recent), 60u);
}

// The same two tokens come before another token each time, so the drafter learns not to draft.
TEST(Drafter, LearnsNotToDraftUnlikelyTokens) {
  const MatchFinder recent(1);
  std::mt19937 random(4);
  Drafter drafter(recent, {});
  Tokens text = {1, 2};
  size_t n_early = 0;
  size_t n_late = 0;
  for (int i = 0; i < 300; ++i) {
    text.insert(text.end(), {static_cast<int32_t>(100 + i), 1, 2});
    const Draft draft = drafter.propose(text, 8);
    if (i < 10) n_early += draft.tokens.size();
    if (i >= 290) n_late += draft.tokens.size();
    if (!draft.tokens.empty()) drafter.learn(draft, 1, false);
  }
  EXPECT_GT(n_early, 5u);
  EXPECT_LE(n_late, 10u);
  const Draft last = drafter.propose(text, 8);
  if (!last.chances.empty()) {
    EXPECT_LT(last.chances.front(), 0.15);
  }
}

TEST(Drafter, DraftsAtMostMaxTokens) {
  const MatchFinder recent(1);
  Drafter drafter(recent, {});
  const Tokens text = {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_TRUE(drafter.propose(text, 0).tokens.empty());
  EXPECT_EQ(drafter.propose(text, 3).tokens, (Tokens{8, 9, 1}));
}

}  // namespace
}  // namespace billow::engine
