#include "cli/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

#include "base/utf8.h"

namespace billow::cli {
namespace {

TEST(TerminalText, KeepsTextOfAnyScript) {
  const std::string text = "a\tb\nÄ — 日本語 ก็ 👩‍👩‍👧 \u00a0";
  EXPECT_EQ(terminal_text(text), text);
  EXPECT_EQ(terminal_text(""), "");
}

TEST(TerminalText, ShowsControlCharacters) {
  EXPECT_EQ(terminal_text("\033]0;title\a\033[2J"), "␛]0;title␇␛[2J");
  EXPECT_EQ(terminal_text("\033]52;c;aGk=\033\\"), "␛]52;c;aGk=␛\\");
  EXPECT_EQ(terminal_text("good\rbad\b\b\177"), "good␍bad␈␈␡");
  EXPECT_EQ(terminal_text(std::string_view("\0", 1)), "␀");
  EXPECT_EQ(terminal_text("\u009b2J"), "\uFFFD2J");
}

TEST(TerminalText, ReplacesInvalidBytes) {
  // Some terminals take the single byte 9B for the begin of a control sequence.
  EXPECT_EQ(terminal_text("a\x9b\x32J"), "a\uFFFD2J");
}

TEST(TerminalText, ReadsLineEndsOfWindows) { EXPECT_EQ(terminal_text("a\r\nb\r\n"), "a\nb\n"); }

TEST(TerminalText, LeavesNoControlCharacterButTabsAndLineEnds) {
  for (char32_t value = 0; value < 0x3000; ++value) {
    std::string text;
    utf8::append(text, value);
    const std::string shown = terminal_text(text);
    ASSERT_FALSE(shown.empty());
    const char32_t result = utf8::decode(shown).value;
    EXPECT_TRUE(result == '\n' || result == '\t' ||
                (result >= 0x20 && result != 0x7F && !(result >= 0x80 && result < 0xA0)))
        << static_cast<uint32_t>(value);
  }
}

}  // namespace
}  // namespace billow::cli
