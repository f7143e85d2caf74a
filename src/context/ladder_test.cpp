#include "context/ladder.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/error.h"

namespace billow::context {
namespace {

std::vector<size_t> rungs_of(const Ladder& ladder) {
  return {ladder.rungs().begin(), ladder.rungs().end()};
}

std::string refusal(const std::vector<size_t>& sizes, size_t cap) {
  try {
    Ladder(sizes, cap);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidInput);
    return error.what();
  }
  return "";
}

TEST(Ladder, DoublesUpToTheTop) {
  EXPECT_EQ(rungs_of(Ladder(4096)), (std::vector<size_t>{512, 1024, 2048, 4096}));
  EXPECT_EQ(rungs_of(Ladder(5000)), (std::vector<size_t>{512, 1024, 2048, 4096, 5000}));
  EXPECT_EQ(rungs_of(Ladder(512)), (std::vector<size_t>{512}));
  EXPECT_EQ(rungs_of(Ladder(513)), (std::vector<size_t>{512, 513}));
  EXPECT_EQ(rungs_of(Ladder(1)), (std::vector<size_t>{1}));
  EXPECT_EQ(Ladder(std::numeric_limits<size_t>::max()).top(), std::numeric_limits<size_t>::max());
}

TEST(Ladder, GR_6_SizesAreSortedAndCapped) {
  EXPECT_EQ(rungs_of(Ladder(std::vector<size_t>{1024, 512, 512, 4096}, 2048)),
            (std::vector<size_t>{512, 1024}));
}

TEST(Ladder, GR_7_RefusesSizesAboveTheCap) {
  const std::string message = refusal({4096, 2048}, 1024);
  EXPECT_NE(message.find("1024"), std::string::npos) << message;
  EXPECT_NE(message.find("2048"), std::string::npos) << message;
  EXPECT_NE(refusal({}, 1024), "");
  EXPECT_NE(refusal({512, 0}, 1024), "");
}

TEST(Ladder, FirstHoldsThePromptAndOneMoreToken) {
  const Ladder ladder(4096);
  EXPECT_EQ(ladder.first(1), 512u);
  EXPECT_EQ(ladder.first(511), 512u);
  EXPECT_EQ(ladder.first(512), 1024u);  // GR-2
  EXPECT_EQ(ladder.first(513), 1024u);  // GR-3
  EXPECT_EQ(ladder.first(4095), 4096u);
  EXPECT_EQ(ladder.first(4096), 4096u);
}

TEST(Ladder, GR_4_RefusesAPromptAboveTheTopWithBothNumbers) {
  try {
    Ladder(std::vector<size_t>{512, 1024}, 1024).first(1025);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_NE(std::string(error.what()).find("1025"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("1024"), std::string::npos);
  }
}

TEST(Ladder, GR_22_HoldingSkipsRungs) {
  EXPECT_EQ(Ladder(8192).holding(3500), 4096u);
  EXPECT_EQ(Ladder(8192).holding(512), 512u);
  EXPECT_EQ(Ladder(8192).holding(8193), 0u);
}

}  // namespace
}  // namespace billow::context
