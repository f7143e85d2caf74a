#include "context/truncation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace billow::context {
namespace {

using Kept = std::vector<size_t>;

ChatRole role_of(char letter) {
  switch (letter) {
    case 's':
      return ChatRole::kSystem;
    case 'q':
      return ChatRole::kQuestion;
    case 'a':
      return ChatRole::kAnswer;
    default:
      return ChatRole::kResult;
  }
}

// Messages by letter: s system, q question, a answer or call, r result. Each has `n_tokens`.
std::vector<ChatMessage> chat_of(const std::string& letters, size_t n_tokens = 10) {
  std::vector<ChatMessage> messages;
  for (const char letter : letters) messages.push_back({role_of(letter), n_tokens});
  return messages;
}

size_t sum(std::span<const ChatMessage> messages, std::span<const size_t> kept) {
  size_t n = 0;
  for (const size_t i : kept) n += messages[i].n_tokens;
  return n;
}

size_t sum(std::span<const ChatMessage> messages) {
  size_t n = 0;
  for (const ChatMessage& message : messages) n += message.n_tokens;
  return n;
}

// Shortens a chat whose messages have exact token counts.
FittingMessages fitted(std::span<const ChatMessage> messages, size_t limit,
                       size_t* calls = nullptr) {
  return fitting_messages(messages, limit, 0, sum(messages), [&](std::span<const size_t> kept) {
    if (calls != nullptr) ++*calls;
    return sum(messages, kept);
  });
}

TEST(Truncation, TR_2_LeavesOutWholeTurnsButNoSystemOrLastMessage_CP_6) {
  const auto kept = [](const std::string& letters, size_t limit) {
    return fitted(chat_of(letters), limit).kept;
  };
  EXPECT_EQ(kept("sqaqaq", 59), (Kept{0, 3, 4, 5}));
  EXPECT_EQ(kept("sqaqaq", 39), (Kept{0, 5}));
  EXPECT_EQ(kept("sqasqaq", 50), (Kept{0, 3, 4, 5, 6}));
  EXPECT_EQ(kept("aqaq", 39), (Kept{1, 2, 3})) << "an answer without a question is a turn, too";
  EXPECT_EQ(kept("qarraq", 59), (Kept{5})) << "results go with the question";
}

TEST(Truncation, TheLastMessageStaysWithTheMessagesThatItNeeds) {
  const auto kept = [](const std::string& letters, size_t limit) {
    return fitted(chat_of(letters), limit).kept;
  };
  EXPECT_EQ(kept("qaqararar", 60), (Kept{2, 5, 6, 7, 8})) << "calls go with their results";
  EXPECT_EQ(kept("qaqararar", 31), (Kept{2, 7, 8}));
  EXPECT_EQ(kept("qararr", 40), (Kept{0, 3, 4, 5})) << "a call stays with all of its results";
  EXPECT_EQ(kept("qaarrar", 30), (Kept{0, 5, 6})) << "two consecutive calls are one";
  EXPECT_EQ(kept("qarraarr", 50), (Kept{0, 4, 5, 6, 7}));
  for (const char* whole : {"q", "qa", "sq", "qar", "ssqarr"}) {
    const FittingMessages none = fitted(chat_of(whole), 5);
    EXPECT_FALSE(none.fits) << whole;
    EXPECT_EQ(none.kept.size(), std::string(whole).size()) << whole;
  }
}

// A chat turn as clients send it: one question, and sometimes tool calls.
std::vector<ChatMessage> random_turn(std::mt19937& random, size_t n_max) {
  const auto size = [&] { return 1 + random() % n_max; };
  std::vector<ChatMessage> turn{{ChatRole::kQuestion, size()}};
  for (size_t n = random() % 3; n > 0; --n) {
    turn.push_back({ChatRole::kAnswer, size()});
    for (size_t r = 1 + random() % 2; r > 0; --r) turn.push_back({ChatRole::kResult, size()});
  }
  turn.push_back({ChatRole::kAnswer, size()});
  return turn;
}

bool is_call_kept(std::span<const ChatMessage> messages, const std::vector<bool>& stays, size_t i) {
  while (i > 0 && messages[i].role == ChatRole::kResult) --i;
  return messages[i].role != ChatRole::kAnswer || stays[i];
}

TEST(Truncation, FindsTheFirstFittingCutInFewCalls) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::vector<ChatMessage> messages(1 + random() % 60);
    for (ChatMessage& message : messages)
      message = {static_cast<ChatRole>(random() % 4), random() % 50};
    // A prompt has 3 tokens more than its messages. The token counts of messages are estimates.
    std::vector<size_t> exact;
    for (const ChatMessage& message : messages)
      exact.push_back(message.n_tokens / 2 + random() % (message.n_tokens + 5));
    const auto count = [&](std::span<const size_t> kept) {
      size_t n = 3;
      for (const size_t k : kept) n += exact[k];
      return n;
    };
    Kept all(messages.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const size_t n_whole = count(all);
    const size_t limit = random() % (n_whole + 1);
    if (n_whole <= limit) continue;
    const size_t n_fixed = random() % 20;
    size_t n_calls = 0;
    size_t n_latest = n_whole;
    const FittingMessages found =
        fitting_messages(messages, limit, n_fixed, n_whole, [&](std::span<const size_t> kept) {
          ++n_calls;
          const size_t n = count(kept);
          if (n <= limit || n_latest > limit) n_latest = n;
          return n;
        });
    const ChatCuts cuts(messages, cut_step(messages, limit, n_fixed));
    ASSERT_LE(n_calls, 2 + std::bit_width(cuts.n_cuts()));
    size_t cut = 0;
    while (cut + 1 < cuts.n_cuts() && count(cuts.kept(cut)) > limit) ++cut;
    ASSERT_EQ(found.kept, cuts.kept(cut));
    ASSERT_EQ(found.fits, count(found.kept) <= limit);
    ASSERT_EQ(count(found.kept), n_latest) << "the last fitting call was for the result";
    ASSERT_TRUE(std::ranges::is_sorted(found.kept));
    ASSERT_EQ(found.kept.back(), messages.size() - 1);
    std::vector<bool> stays(messages.size());
    for (const size_t k : found.kept) stays[k] = true;
    for (size_t m = 0; m < messages.size(); ++m) {
      ASSERT_TRUE(messages[m].role != ChatRole::kSystem || stays[m]);
      if (stays[m] && messages[m].role == ChatRole::kResult) {
        ASSERT_TRUE(is_call_kept(messages, stays, m));
      }
    }
  }
}

// A shortened chat stays fast, because its prompts have the same prefix turn after turn.
TEST(Truncation, AGrowingChatIsCutAtTheSamePlaceForManyTurns) {
#ifdef NDEBUG
  constexpr int kChats = 200;
#else  // with sanitizers each step takes ten times as long
  constexpr int kChats = 40;
#endif
  std::mt19937 random(7);
  for (int i = 0; i < kChats; ++i) {
    const size_t limit = 500 + random() % 4000;
    const size_t n_max = 5 + random() % (limit / 8);
    std::vector<ChatMessage> messages;
    if (random() % 2 == 0) messages.push_back({ChatRole::kSystem, random() % (limit / 4)});
    const size_t step = cut_step(messages, limit, 0);
    const size_t n_always = sum(messages);
    size_t n_out_before = 0;
    size_t n_changes = 0;
    size_t n_turns = 0;
    while (n_turns < 200) {
      messages.push_back({ChatRole::kQuestion, 1 + random() % n_max});
      if (sum(messages) > limit) {
        ++n_turns;
        size_t n_calls = 0;
        const FittingMessages found = fitted(messages, limit, &n_calls);
        ASSERT_TRUE(found.fits);
        ASSERT_LE(n_calls, 2u);
        const size_t n_out = messages.size() - found.kept.size();
        ASSERT_GE(n_out, n_out_before) << "a message that was left out stays out";
        if (n_out > n_out_before) {
          ++n_changes;
          // A new cut leaves out at most the excess, a step and a few turns.
          ASSERT_GE(n_always + sum(messages, found.kept) + step + 16 * n_max, limit);
        }
        n_out_before = n_out;
      }
      const std::vector<ChatMessage> rest = random_turn(random, n_max);
      messages.insert(messages.end(), rest.begin() + 1, rest.end());
    }
    // Of three consecutive cuts, the first and the last are more than a step apart.
    const size_t n_left_out = sum(messages);
    ASSERT_LE(n_changes, 2 * n_left_out / step + 2);
  }
}

TEST(Truncation, TurnsOfOneSizeShareACutUntilHalfOfTheContextIsFull) {
  std::vector<ChatMessage> messages{{ChatRole::kSystem, 100}};
  std::vector<size_t> cuts;
  for (int turn = 0; turn < 60; ++turn) {
    messages.push_back({ChatRole::kQuestion, 400});
    if (sum(messages) > 7100) cuts.push_back(messages.size() - fitted(messages, 7100).kept.size());
    messages.push_back({ChatRole::kAnswer, 400});
  }
  const std::set<size_t> places(cuts.begin(), cuts.end());
  EXPECT_GE(cuts.size(), places.size() * 4 - 3) << "four turns of 800 in half of 7000";
  EXPECT_EQ(*places.begin(), 8u);
}

TEST(Truncation, ALargeTurnSharesNoCutWithItsNeighbours) {
  // A step is 500. The second turn has 750, so only the first turn is left out.
  const std::vector<ChatMessage> messages{{ChatRole::kQuestion, 50},  {ChatRole::kAnswer, 50},
                                          {ChatRole::kQuestion, 700}, {ChatRole::kAnswer, 50},
                                          {ChatRole::kQuestion, 100}, {ChatRole::kAnswer, 50},
                                          {ChatRole::kQuestion, 90}};
  EXPECT_EQ(fitted(messages, 1000).kept, (Kept{2, 3, 4, 5, 6}));
}

TEST(Truncation, AnExceptionOfTheCounterEndsTheSearch) {
  const std::vector<ChatMessage> messages = chat_of("qaqaqaqaqaqaqaq");
  size_t n_calls = 0;
  EXPECT_THROW(fitting_messages(messages, 50, 0, 150,
                                [&](std::span<const size_t>) -> size_t {
                                  ++n_calls;
                                  throw 5;
                                }),
               int);
  EXPECT_EQ(n_calls, 1u);
}

}  // namespace
}  // namespace billow::context
