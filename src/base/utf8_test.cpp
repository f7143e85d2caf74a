#include "base/utf8.h"

#include <gtest/gtest.h>

namespace billow::utf8 {
namespace {

TEST(Utf8, RoundTripsEveryCodePoint) {
  for (char32_t value = 0; value <= 0x10FFFF; ++value) {
    if (value == 0xD800) value = 0xE000;
    std::string text;
    append(text, value);
    const CodePoint point = decode(text);
    ASSERT_TRUE(point.valid);
    ASSERT_EQ(point.value, value);
    ASSERT_EQ(point.n_bytes, text.size());
    for (size_t cut = 1; cut < text.size(); ++cut) {
      ASSERT_EQ(whole_length(std::string_view(text).substr(0, cut)), 0u);
    }
    ASSERT_EQ(whole_length(text), text.size());
  }
}

TEST(Utf8, RejectsOverlongFormsSurrogatesAndStrayBytes) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
                          "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xFF", "\xE2\x82"}) {
    EXPECT_FALSE(decode(bad).valid);
    EXPECT_EQ(decode(bad).n_bytes, 1);
    EXPECT_FALSE(is_valid(bad));
  }
}

TEST(Utf8, HoldsBackOnlyIncompleteCharacters) {
  EXPECT_EQ(whole_length("a\xE2\x82"), 1u);
  EXPECT_EQ(whole_length("a\xF0\x9F\x98"), 1u);
  EXPECT_EQ(whole_length("a\xFF"), 2u);
  EXPECT_EQ(whole_length("a\x80\x80"), 3u);
  EXPECT_EQ(whole_length("a\xED\xA0"), 3u);
  EXPECT_EQ(whole_length(""), 0u);
}

TEST(Utf8, SanitizedReplacesEachInvalidByte) {
  EXPECT_EQ(sanitized("a\xFF\x80z"), "a\uFFFD\uFFFDz");
}

}  // namespace
}  // namespace billow::utf8
