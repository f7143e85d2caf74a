#include "base/go_text.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

TEST(GoText, QuotesAsGoDoes) {
  EXPECT_EQ(go_quoted("a\"b\\c\n\t\r"), "\"a\\\"b\\\\c\\n\\t\\r\"");
  EXPECT_EQ(go_quoted("\a\b\f\v"), "\"\\a\\b\\f\\v\"");
  EXPECT_EQ(go_quoted("\x01\x7f\xff"), "\"\\x01\\x7f\\xff\"");
  EXPECT_EQ(go_quoted("\xC3\xA4\xF0\x9F\x99\x82"), "\"\xC3\xA4\xF0\x9F\x99\x82\"");
  EXPECT_EQ(go_quoted("\xE2\x80\x8B\xF3\xB0\x80\x80"), "\"\\u200b\\U000f0000\"");
  EXPECT_EQ(go_quoted(""), "\"\"");
}

TEST(GoText, PrintsTheReplacementCharacterButNotItsNeighbours) {
  EXPECT_TRUE(is_go_printable(U'\uFFFD'));
  EXPECT_FALSE(is_go_printable(U'\uFFFB'));
  EXPECT_FALSE(is_go_printable(U'\uFFFE'));
  EXPECT_TRUE(is_go_printable(U' '));
  EXPECT_FALSE(is_go_printable(U'\u00A0'));
}

}  // namespace
}  // namespace billow
