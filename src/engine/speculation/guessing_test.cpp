// When a draft model guesses, and how its results are learned.
#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "engine/speculation/speculation.h"

namespace billow::engine {
namespace {

using std::chrono::milliseconds;

// Passes of the model take 100 ms for one row and 20 ms for each further row. Those of the draft
// model take guess_ms for one row and a tenth of that for each further row.
Speculation measured(int guess_ms) {
  Speculation speculation({});
  for (int round = 0; round < 100; ++round) {
    for (const size_t n : {1u, 2u, 3u, 4u, 6u, 8u, 10u, 14u}) {
      const auto more = static_cast<int>(n) - 1;
      speculation.note_pass(n, milliseconds(100 + 20 * more));
      speculation.note_guess_pass(
          n, std::chrono::microseconds(1000 * guess_ms + 100 * guess_ms * more));
    }
  }
  return speculation;
}

using Worth = std::vector<bool>;

TEST(Guessing, IsWorthItIfTheTokensTakeLonger) {
  const DraftRoom one = {.n_rows = 1, .n_writing = 1, .max_rows = 32};
  const auto worth = [&](int guess_ms, double chance) -> bool {
    const std::vector<double> chances = {chance};
    return measured(guess_ms).worth_guessing(chances, one).front();
  };
  EXPECT_TRUE(worth(10, 0.7));
  EXPECT_FALSE(worth(10, 0.25));  // 25 ms for a row of 20 ms and the guess
  EXPECT_FALSE(worth(10, 0.0));
  EXPECT_FALSE(worth(100, 0.99));  // a guess takes as long as the model
  EXPECT_FALSE(worth(60, 0.7));
  EXPECT_TRUE(worth(40, 0.95));
}

TEST(Guessing, IsTriedBeforeTheFirstMeasurement) {
  const Speculation speculation({});
  const std::vector<double> chances = {0.7, 0.1};
  EXPECT_EQ(speculation.worth_guessing(chances, {.n_rows = 2, .n_writing = 2}),
            (Worth{true, true}));
}

// The first pass of a draft model is slow. Without guesses, nothing would be measured again.
TEST(Guessing, IsTriedSomeTimesAfterASlowFirstPass) {
  Speculation speculation({});
  for (int i = 0; i < 20; ++i) speculation.note_pass(1, milliseconds(100));
  const DraftRoom one = {.n_rows = 1, .n_writing = 1, .max_rows = 32};
  const std::vector<double> chances = {0.7};
  speculation.note_guess_pass(1, milliseconds(2000));
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(speculation.worth_guessing(chances, one).front());
    speculation.note_guess_pass(1, milliseconds(10));
  }
}

// A pass for several sequences can be worth it when one for each alone is not. An unlikely guess
// gets none.
TEST(Guessing, SequencesShareAPass) {
  const Speculation speculation = measured(10);
  const auto worth = [&](const std::vector<double>& chances) {
    return speculation.worth_guessing(
        chances, {.n_rows = chances.size(), .n_writing = chances.size(), .max_rows = 32});
  };
  EXPECT_EQ(worth({0.65, 0.05, 0.05, 0.05}), (Worth{false, false, false, false}));
  EXPECT_EQ(worth({0.65, 0.65, 0.65, 0.05}), (Worth{true, true, true, false}));
}

TEST(Guessing, CatchingUpTakesAQuarterOfAPass) {
  const DraftRoom one = {.n_rows = 1, .n_writing = 1, .max_rows = 32};
  EXPECT_EQ(measured(100).rows_to_catch_up(one), 8u);  // the min
  const size_t n = measured(5).rows_to_catch_up(one);
  EXPECT_GT(n, 20u);
  EXPECT_LE(n, 48u);
}

TEST(Guessing, TheChanceOfAGuessFollowsResultsAndRecovers) {
  Speculation speculation({});
  Drafter drafter = speculation.make_drafter();
  EXPECT_NEAR(drafter.chance_of_guess(), 0.7, 0.01);
  for (int i = 0; i < 40; ++i) {
    Draft draft;
    speculation.add_guess(draft, 5, 0.9);
    ASSERT_EQ(draft.source, DraftSource::kModel);
    speculation.learn(drafter, draft, 1, false);
  }
  EXPECT_LT(drafter.chance_of_guess(), 0.05);
  EXPECT_LT(speculation.make_drafter().chance_of_guess(), 0.5);  // new sequences also start lower
  Draft draft;
  speculation.add_guess(draft, 5, 0.9);
  EXPECT_LT(draft.chances.front(), 0.3);  // guesses of this grade were rejected
  Draft other;
  speculation.add_guess(other, 5, 0.99);
  EXPECT_GT(other.chances.front(), draft.chances.front());
  const std::vector<int32_t> text = {1, 2, 3};
  for (int i = 0; i < 300; ++i) (void)drafter.propose(text, 4);
  EXPECT_GT(drafter.chance_of_guess(), 0.25);
}

TEST(Guessing, AGuessThatIsNotComparedCountsWithItsChance) {
  Speculation speculation({});
  Drafter drafter = speculation.make_drafter();
  const Speculation::Writer writer = {.drafter = &drafter, .text = {}, .max_tokens = 4};
  for (int i = 0; i < 30; ++i) {
    std::vector<Draft> drafts(1);
    speculation.add_guess(drafts.front(), 5, 0.01);
    speculation.limit(std::span(&writer, 1), {.n_rows = 1, .n_writing = 1, .max_rows = 0}, drafts);
    EXPECT_TRUE(drafts.front().tokens.empty());
    EXPECT_TRUE(drafts.front().grades.empty());
  }
  EXPECT_LT(drafter.chance_of_guess(), 0.45);
}

}  // namespace
}  // namespace billow::engine
