#include "context/truncation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>

#include "base/error.h"

namespace billow::context {
namespace {

TEST(Truncation, TR_1_LeavesWhatOllamaLeaves) {
  EXPECT_EQ(left_by_ollama(8, 3), 6u);
  EXPECT_EQ(left_by_ollama(4096, 4), 2050u);
  EXPECT_EQ(left_by_ollama(4096, 5), 2051u);
  EXPECT_EQ(left_by_ollama(8, 99), 7u);
  EXPECT_EQ(left_by_ollama(8, -1), 4u);
  EXPECT_EQ(left_by_ollama(1, 0), 0u);
  EXPECT_EQ(left_by_ollama(0, 0), 0u);
}

// Messages by letter: s system, q question, a answer. Each has ten tokens.
std::vector<size_t> kept_of(const std::string& roles, size_t limit) {
  std::vector<ChatMessage> messages;
  for (const char role : roles) messages.push_back({role == 's', role == 'a'});
  return fitting_messages(messages, limit,
                          [](std::span<const size_t> kept) { return 10 * kept.size(); });
}

TEST(Truncation, TR_2_DropsWholeOldMessagesButNeverTheSystemsOrTheLast_CP_6) {
  using Kept = std::vector<size_t>;
  EXPECT_EQ(kept_of("sqaqaq", 60), (Kept{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(kept_of("sqaqaq", 59), (Kept{0, 3, 4, 5}));
  EXPECT_EQ(kept_of("sqaqaq", 39), (Kept{0, 5}));
  EXPECT_EQ(kept_of("sqasqaq", 50), (Kept{0, 3, 4, 5, 6}));
  EXPECT_EQ(kept_of("q", 10), (Kept{0}));
  EXPECT_EQ(kept_of("qa", 10), (Kept{1}));  // the last one stays whoever wrote it
  try {
    kept_of("sqaq", 19);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_NE(std::string(error.what()).find("20 tokens"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("19"), std::string::npos);
  }
}

TEST(Truncation, KeepsAsMuchAsFitsInOrder) {
  std::mt19937 random(3);
  for (int i = 0; i < 2000; ++i) {
    std::vector<ChatMessage> messages(1 + random() % 12);
    std::vector<size_t> sizes;
    for (ChatMessage& message : messages) {
      message.is_system = random() % 5 == 0;
      message.is_answer = !message.is_system && random() % 2 == 0;
      sizes.push_back(1 + random() % 50);
    }
    const auto count = [&](std::span<const size_t> kept) {
      size_t sum = 3;
      for (const size_t k : kept) sum += sizes[k];
      return sum;
    };
    const size_t limit = random() % 300;
    try {
      const std::vector<size_t> kept = fitting_messages(messages, limit, count);
      ASSERT_LE(count(kept), limit);
      ASSERT_TRUE(std::is_sorted(kept.begin(), kept.end()));
      ASSERT_EQ(kept.back(), messages.size() - 1);
      for (size_t m = 0; m < messages.size(); ++m) {
        ASSERT_TRUE(!messages[m].is_system || std::count(kept.begin(), kept.end(), m) == 1);
      }
    } catch (const Error&) {
      std::vector<size_t> least;
      for (size_t m = 0; m < messages.size(); ++m)
        if (messages[m].is_system || m + 1 == messages.size()) least.push_back(m);
      ASSERT_GT(count(least), limit);
    }
  }
}

}  // namespace
}  // namespace billow::context
