#include "api/slots.h"

#include <gtest/gtest.h>

#include "http/status.h"

namespace billow::api {
namespace {

std::vector<int32_t> range(int32_t begin, int32_t end) {
  std::vector<int32_t> tokens;
  for (int32_t i = begin; i < end; ++i) tokens.push_back(i);
  return tokens;
}
SlotText text(std::vector<int32_t> tokens) { return {.text = {.tokens = std::move(tokens)}}; }

TEST(Slots, ARequestLeavesItsTextInItsSlot) {
  Slots slots(2);
  EXPECT_TRUE(slots.text("m", 1).text.tokens.empty());
  {
    Slots::Use use = slots.begin("m", 1, range(0, 5));
    EXPECT_EQ(use.id(), 1u);
    EXPECT_TRUE(slots.list("m")[1].is_busy);
    EXPECT_FALSE(slots.list("m")[0].is_busy);
    use.set(text(range(0, 7)));
  }
  EXPECT_FALSE(slots.list("m")[1].is_busy);
  EXPECT_EQ(slots.list("m")[1].n_tokens, 7u);
  EXPECT_EQ(slots.text("m", 1).text.tokens, range(0, 7));
  EXPECT_TRUE(slots.text("other", 1).text.tokens.empty());
}

TEST(Slots, RefusesSlotsThatDoNotExist) {
  Slots slots(4);
  for (const int64_t id : {int64_t{-2}, int64_t{4}, INT64_MAX, INT64_MIN}) {
    try {
      slots.begin("m", id, {});
      ADD_FAILURE() << id;
    } catch (const http::StatusError& error) {
      EXPECT_EQ(error.status(), 400);
      EXPECT_NE(std::string(error.what()).find("from 0 to 3"), std::string::npos) << error.what();
    }
  }
}

TEST(Slots, ChoosesTheSlotOfTheSameConversation) {
  Slots slots(3);
  EXPECT_EQ(slots.begin("m", {}, range(0, 100)).id(), 0u) << "the first unused slot";
  slots.set("m", 0, text(range(0, 100)));
  EXPECT_EQ(slots.begin("m", {}, range(500, 600)).id(), 1u) << "another conversation";
  slots.set("m", 1, text(range(500, 600)));
  EXPECT_EQ(slots.begin("m", {}, range(0, 150)).id(), 0u);
  EXPECT_EQ(slots.begin("m", {}, range(500, 520)).id(), 1u);
  slots.set("m", 2, text(range(700, 800)));
  EXPECT_EQ(slots.begin("m", {}, range(900, 999)).id(), 0u) << "the least recently used slot";
}

TEST(Slots, PrefersSlotsWithoutARequest) {
  Slots slots(2);
  const Slots::Use first = slots.begin("m", {}, range(0, 100));
  slots.set("m", 0, text(range(0, 100)));
  const Slots::Use second = slots.begin("m", {}, range(0, 100));
  EXPECT_EQ(second.id(), 1u);
  const Slots::Use third = slots.begin("m", {}, range(0, 100));  // all are busy
  EXPECT_EQ(third.id(), 0u);
}

TEST(Slots, KeepsTheSlotsOfTheLatestModels) {
  Slots slots(1);
  for (size_t i = 0; i <= Slots::kMaxModels; ++i)
    slots.set(std::to_string(i), 0, text({static_cast<int32_t>(i)}));
  EXPECT_TRUE(slots.text("0", 0).text.tokens.empty());
  EXPECT_EQ(slots.text("1", 0).text.tokens, std::vector<int32_t>{1});
  // A request of a model that lost its slots ends.
  const Slots::Use use = slots.begin("old", {}, {});
  for (size_t i = 0; i <= Slots::kMaxModels; ++i) slots.set(std::to_string(i), 0, text({1}));
}

}  // namespace
}  // namespace billow::api
