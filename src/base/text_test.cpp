#include "base/text.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

TEST(Text, LowersOnlyAsciiLetters) {
  EXPECT_EQ(lower_case("aZ[\xC3\x84"), "az[\xC3\x84");
  EXPECT_TRUE(equal_ignoring_case("aZ[", "Az["));
  EXPECT_FALSE(equal_ignoring_case("[", "{"));  // 32 apart, but not letters
  EXPECT_FALSE(equal_ignoring_case("a", "ab"));
}

TEST(Text, TrimsBothEnds) {
  EXPECT_EQ(trimmed(" \t a b\n"), "a b");
  EXPECT_EQ(trimmed(" \v\f\r\n"), "");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed("[::1]", "[]"), "::1");
}

}  // namespace
}  // namespace billow
