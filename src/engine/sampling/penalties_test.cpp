#include "engine/sampling/penalties.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/sampling/random.h"

namespace billow::engine {
namespace {

TEST(Penalties, FollowTheFormula) {
  Penalties penalties(
      {.repeat_penalty = 1.5f, .presence_penalty = 0.25f, .frequency_penalty = 0.5f}, 5);
  ASSERT_TRUE(penalties.active());
  for (const int32_t token : {1, 3, 1, 4, 1}) penalties.accept(token);
  std::vector<float> logits = {2.0f, 3.0f, -1.0f, -2.0f, 0.0f};
  penalties.apply(logits);
  EXPECT_FLOAT_EQ(logits[0], 2.0f);
  EXPECT_FLOAT_EQ(logits[1], 3.0f / 1.5f - 3 * 0.5f - 0.25f);
  EXPECT_FLOAT_EQ(logits[2], -1.0f);
  EXPECT_FLOAT_EQ(logits[3], -2.0f * 1.5f - 0.5f - 0.25f);
  EXPECT_FLOAT_EQ(logits[4], -0.5f - 0.25f);
}

TEST(Penalties, AreInactiveIfNeutralOrWithoutAWindow) {
  EXPECT_FALSE(Penalties({}, 4).active());
  EXPECT_FALSE(Penalties({.repeat_last_n = 0, .repeat_penalty = 2.0f, .presence_penalty = 1.0f}, 4)
                   .active());
  EXPECT_TRUE(Penalties({.repeat_penalty = 1.1f}, 4).active());
  EXPECT_TRUE(Penalties({.presence_penalty = -1.0f}, 4).active());
  EXPECT_TRUE(Penalties({.frequency_penalty = 0.1f}, 4).active());
}

TEST(Penalties, UseExactlyTheWindow) {
  constexpr int32_t kVocab = 7;
  for (const int32_t window : {1, 2, 5, 64, -1}) {
    Random random(21);
    Penalties penalties({.repeat_last_n = window, .frequency_penalty = 1.0f}, kVocab);
    std::vector<int32_t> history;
    for (int step = 0; step < 300; ++step) {
      history.push_back(static_cast<int32_t>(random.uniform() * kVocab));
      penalties.accept(history.back());
      std::vector<float> logits(kVocab);
      penalties.apply(logits);
      const size_t n =
          window < 0 ? history.size() : std::min(history.size(), static_cast<size_t>(window));
      for (int32_t token = 0; token < kVocab; ++token) {
        const auto count =
            std::count(history.end() - static_cast<std::ptrdiff_t>(n), history.end(), token);
        ASSERT_EQ(logits[static_cast<size_t>(token)], -static_cast<float>(count))
            << window << " " << step;
      }
    }
  }
}

TEST(Penalties, AHugeWindowNeedsNoMemoryBeforeItIsFilled) {
  Penalties penalties({.repeat_last_n = 2147483647, .presence_penalty = 1.0f}, 2);
  penalties.accept(1);
  std::vector<float> logits(2);
  penalties.apply(logits);
  EXPECT_EQ(logits, (std::vector<float>{0.0f, -1.0f}));
}

TEST(Penalties, TokensOutsideTheVocabularyAreNotCounted) {
  Penalties penalties({.presence_penalty = 1.0f}, 2);
  for (const int32_t token : {-1, 2, -2147483647 - 1, 2147483647}) penalties.accept(token);
  std::vector<float> logits(2);
  penalties.apply(logits);
  EXPECT_EQ(logits, std::vector<float>(2));
}

}  // namespace
}  // namespace billow::engine
