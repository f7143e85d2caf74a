#include "cli/client/key_decoder.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace billow::cli {
namespace {

KeyEvent key(Key k) { return {.key = k}; }
KeyEvent typed(char32_t c) { return {.key = Key::kText, .text = std::u32string(1, c)}; }
KeyEvent pasted(std::u32string text) { return {.key = Key::kPasted, .text = std::move(text)}; }

// Joins the pieces of a paste, because their cuts depend on how the bytes arrive.
std::vector<KeyEvent> joined(std::vector<KeyEvent> events) {
  std::vector<KeyEvent> out;
  for (KeyEvent& event : events) {
    if (event.key == Key::kPasted && !out.empty() && out.back().key == Key::kPasted) {
      out.back().text += event.text;
    } else {
      out.push_back(std::move(event));
    }
  }
  return out;
}

std::vector<KeyEvent> keys_of(std::string_view bytes) {
  KeyDecoder decoder;
  return joined(decoder.take(bytes, false));
}

TEST(KeyDecoder, DecodesCharactersAndControlKeys) {
  EXPECT_EQ(keys_of("aü€\r\x03\x04\x7f\t"),
            (std::vector<KeyEvent>{typed('a'), typed(U'ü'), typed(U'€'), key(Key::kEnter),
                                   key(Key::kInterrupt), key(Key::kEndOrDelete),
                                   key(Key::kBackspace), typed('\t')}));
}

TEST(KeyDecoder, DecodesSequences) {
  EXPECT_EQ(keys_of("\033[A\033OB\033[1;5C\033[3~\033b\033\r\033\033[D"),
            (std::vector<KeyEvent>{key(Key::kUp), key(Key::kDown), key(Key::kWordRight),
                                   key(Key::kDelete), key(Key::kWordLeft), key(Key::kNewline),
                                   key(Key::kLeft)}));
}

TEST(KeyDecoder, IgnoresUnknownSequences) {
  EXPECT_EQ(keys_of("a\033[15;2~b\033[[Ac\033OPd\033ze\033[201~f\033[1\rg"),
            (std::vector<KeyEvent>{typed('a'), typed('b'), typed('c'), typed('d'), typed('e'),
                                   typed('f'), key(Key::kEnter), typed('g')}));
  EXPECT_EQ(keys_of("\033[" + std::string(100, '1')).back(), typed('1'));
}

TEST(KeyDecoder, ReplacesInvalidBytes) {
  EXPECT_EQ(keys_of("\xff\xc3x"),
            (std::vector<KeyEvent>{typed(0xFFFD), typed(0xFFFD), typed('x')}));
}

TEST(KeyDecoder, DecodesNoKeysInAPaste) {
  EXPECT_EQ(
      keys_of("\033[200~a\r\nb\rc\n\t\x03\x04\033[A\033[200~\"\"\"\r\r\033[201~x"),
      (std::vector<KeyEvent>{pasted(U"a\nb\nc\n\t\x03\x04\033[A\033[200~\"\"\"\n\n"), typed('x')}));
}

TEST(KeyDecoder, EndsAnUnfinishedPasteOnCtrlCAfterAPause) {
  KeyDecoder decoder;
  decoder.take("\033[200~text\033[20", false);
  EXPECT_EQ(decoder.take("\x03", false), std::vector<KeyEvent>{pasted(U"\033[20\x03")});
  EXPECT_TRUE(decoder.is_pasting());
  EXPECT_EQ(decoder.take("\x03", true), std::vector<KeyEvent>{key(Key::kInterrupt)});
  EXPECT_EQ(decoder.take("x", false), std::vector<KeyEvent>{typed('x')});
}

TEST(KeyDecoder, APasteAfterAnUnfinishedOneKeepsItsFirstLineEnd) {
  KeyDecoder decoder;
  decoder.take("\033[200~text\r", false);
  EXPECT_EQ(decoder.take("\x03", true), std::vector<KeyEvent>{key(Key::kInterrupt)});
  EXPECT_EQ(decoder.take("\033[200~\nb\033[201~", false), std::vector<KeyEvent>{pasted(U"\nb")});
}

TEST(KeyDecoder, DropsTheRestOfAnInterruptedPaste) {
  KeyDecoder decoder;
  decoder.take("\033[200~one", false);
  decoder.interrupt();
  EXPECT_TRUE(decoder.take("two\r/bye\r", true).empty());
  EXPECT_EQ(decoder.take("x\033[201~y", false), std::vector<KeyEvent>{typed('y')});
  decoder.take("\033[200~one", false);
  decoder.interrupt();
  EXPECT_TRUE(decoder.take("z", true).empty());
  EXPECT_EQ(decoder.take("\x03", true), std::vector<KeyEvent>{key(Key::kInterrupt)});
  EXPECT_EQ(decoder.take("z", true), std::vector<KeyEvent>{typed('z')});
}

TEST(KeyDecoder, DecodesTheSameKeysForAnySplitOfTheBytes) {
  const std::vector<std::string> parts = {
      "a",      "ü",         "€",        "\U0001F600", "\r",          "\x03",      "\033[A",
      "\033OH", "\033[3;5~", "\033f",    "\033\033",   "\033[200~",   "\033[201~", "\033[20",
      "\xe2",   "\xff",      "\"\"\"\r", "/bye\r\n",   "\033[99999m", "\n",        "\t"};
  for (unsigned seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    std::string bytes;
    for (int i = 0; i < 30; ++i) bytes += parts[random() % parts.size()];
    KeyDecoder decoder;
    std::vector<KeyEvent> events;
    for (size_t at = 0; at < bytes.size();) {
      const size_t n = 1 + random() % 5;
      for (KeyEvent& event : decoder.take(std::string_view(bytes).substr(at, n), false)) {
        events.push_back(std::move(event));
      }
      at += n;
    }
    EXPECT_EQ(joined(std::move(events)), keys_of(bytes)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace billow::cli
