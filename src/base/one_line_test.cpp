#include "base/one_line.h"

#include <gtest/gtest.h>

namespace billow {
namespace {

TEST(OneLine, HasNoControlCharacters) {
  EXPECT_EQ(one_line(" a\nb\x1b[2J\x7f ", 100), "a b [2J");
  EXPECT_EQ(one_line(std::string_view("a\0b", 3), 100), "a b");
  EXPECT_EQ(one_line("\n\t", 100), "");
}

TEST(OneLine, IsValidUtf8AtAnyCut) {
  EXPECT_EQ(one_line("abcdef", 3), "abc");
  EXPECT_EQ(one_line("ab\xc3\xa4", 3), "ab\xef\xbf\xbd");
  EXPECT_EQ(one_line("\xff", 3), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace billow
