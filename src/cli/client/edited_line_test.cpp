#include "cli/client/edited_line.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace billow::cli {
namespace {

using Outcome = EditedLine::Outcome;

class Edited : public testing::Test {
 protected:
  Edited() { line.begin(history); }

  Outcome send(std::string_view bytes) {
    Outcome last = Outcome::kNone;
    for (const KeyEvent& event : decoder.take(bytes, false)) last = line.apply(event);
    return last;
  }
  // Returns the text with a | at the cursor.
  std::string seen() const {
    std::u32string text = line.characters();
    text.insert(line.cursor(), 1, U'|');
    EditedLine copy;
    copy.begin(history);
    copy.apply({.key = Key::kText, .text = text});
    return copy.text();
  }
  void begin_again() { line.begin(history); }

  std::vector<std::string> history;
  KeyDecoder decoder;
  EditedLine line;
};

TEST_F(Edited, InsertsDeletesAndMoves) {
  send("hllo\x01\033[Ce");
  EXPECT_EQ(seen(), "he|llo");
  send("\x05!\x7f?\033[D\033[3~");
  EXPECT_EQ(seen(), "hello|");
  send("\x02\x02\x04");
  EXPECT_EQ(seen(), "hel|o");
}

TEST_F(Edited, MovesByWordsAndKills) {
  send("one two three\033b\033b");
  EXPECT_EQ(seen(), "one |two three");
  send("\033f\x17");
  EXPECT_EQ(seen(), "one | three");
  send("\x05\x19");
  EXPECT_EQ(seen(), "one  threetwo|");
  send("\x01\033f\x0b");
  EXPECT_EQ(seen(), "one|");
  send("\x15\x19\x19");
  EXPECT_EQ(seen(), "oneone|");
}

TEST_F(Edited, TreatsACharacterAndItsMarksAsOne) {
  send("e\u0301x\033[D\033[D");
  EXPECT_EQ(seen(), "|e\u0301x");
  send("\033[C\x7f");
  EXPECT_EQ(seen(), "|x");
}

TEST_F(Edited, NeverStopsBeforeAMark) {
  send("\u0e17\u0e35\u0e48\u05e9\u05b8\u1112\u1161\u11ab");  // Thai, Hebrew, Hangul in parts
  send("\033[D");
  EXPECT_EQ(seen(), "\u0e17\u0e35\u0e48\u05e9\u05b8|\u1112\u1161\u11ab");
  send("\033[D");
  EXPECT_EQ(seen(), "\u0e17\u0e35\u0e48|\u05e9\u05b8\u1112\u1161\u11ab");
  send("\033[D");
  EXPECT_EQ(seen(), "|\u0e17\u0e35\u0e48\u05e9\u05b8\u1112\u1161\u11ab");
  send("\033[C");
  EXPECT_EQ(seen(), "\u0e17\u0e35\u0e48|\u05e9\u05b8\u1112\u1161\u11ab");
}

TEST_F(Edited, TreatsAPasteAsText) {
  EXPECT_EQ(send("a\033[200~\"\"\"\r/bye\r\x03\x04\t\033[201~b"), Outcome::kNone);
  EXPECT_EQ(line.text(), "a\"\"\"\n/bye\n\x03\x04\tb");
  EXPECT_EQ(line.typed_ends().head, 1u);
  EXPECT_EQ(line.typed_ends().tail, 1u);
  EXPECT_EQ(send("\r"), Outcome::kLine);
}

TEST_F(Edited, TracksWhichTextWasTyped) {
  send("€\033[200~x\033[201~");
  EXPECT_EQ(line.typed_ends().head, 3u);
  EXPECT_EQ(line.typed_ends().tail, 0u);
  send("\x7f");
  EXPECT_EQ(line.typed_ends().head, std::string::npos);
  send("\033[200~y\033[201~\x17\x19");  // yanked text stays pasted text
  EXPECT_EQ(line.text(), "€y");
  EXPECT_EQ(line.typed_ends().tail, 0u);
}

TEST_F(Edited, EndsAndInterrupts) {
  EXPECT_EQ(send("\x04"), Outcome::kEnd);
  EXPECT_EQ(send("x\x03"), Outcome::kInterrupt);
  EXPECT_EQ(send("\x1a"), Outcome::kSuspend);
  EXPECT_EQ(send("\x0c"), Outcome::kClearScreen);
  begin_again();
  EXPECT_EQ(line.text(), "");
}

TEST_F(Edited, MovesBetweenLines) {
  send("one\033\rtwo longer\033\rx\033[A");
  EXPECT_EQ(seen(), "one\nt|wo longer\nx");
  send("\x05\033[A");
  EXPECT_EQ(seen(), "one|\ntwo longer\nx");
  send("\033[B\033[B");
  EXPECT_EQ(seen(), "one\ntwo longer\nx|");
  send("\033[A\x0b");
  EXPECT_EQ(seen(), "one\nt|\nx");
  send("\x15");
  EXPECT_EQ(seen(), "one\n|\nx");
}

TEST_F(Edited, RecallsEntries) {
  history = {"first", "second\nof two lines", "third"};
  begin_again();
  send("draft\033[A");
  EXPECT_EQ(seen(), "third|");
  send("\033[A\033[A");  // continues through an entry of several lines
  EXPECT_EQ(seen(), "first|");
  send("\033[A");
  EXPECT_EQ(seen(), "first|");
  send("\033[B");
  EXPECT_EQ(seen(), "second\nof two lines|");
  send("\x01\033[A");  // the last key recalled nothing, so Up moves in the text
  EXPECT_EQ(seen(), "|second\nof two lines");
  send("\x0e\x0e");
  EXPECT_EQ(seen(), "draft|");
  send("\x0e\033[B");
  EXPECT_EQ(seen(), "draft|");
}

}  // namespace
}  // namespace billow::cli
