#include "cli/client/answer_printer.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

#include "base/json.h"

namespace billow::cli {
namespace {

std::string printed(const AnswerStyle& style, std::initializer_list<Json> objects) {
  std::string out;
  AnswerPrinter printer(style, [&out](const std::string& text) { out += text; });
  for (const Json& object : objects) printer.take(object);
  printer.end();
  return out;
}

Json thinking(const char* text) { return {{"message", {{"content", ""}, {"thinking", text}}}}; }
Json content(const char* text) { return {{"message", {{"content", text}}}}; }

TEST(AnswerPrinter, SeparatesThinkingFromTheAnswer) {
  EXPECT_EQ(printed({}, {thinking("Hm"), thinking("."), content("Yes"), content("!")}),
            "Thinking...\nHm.\n...done thinking.\n\nYes!");
  EXPECT_EQ(printed({}, {thinking("Hm\n"), content("Yes")}),
            "Thinking...\nHm\n...done thinking.\n\nYes");
  EXPECT_EQ(printed({.hides_thinking = true}, {thinking("Hm"), content("Yes")}), "Yes");
  EXPECT_EQ(printed({}, {{{"response", "a"}}, {{"response", ""}, {"thinking", "b"}}}),
            "aThinking...\nb");
}

TEST(AnswerPrinter, ResetsTheColourAtTheEnd) {
  const std::string out = printed({.colours = true}, {thinking("Hm")});
  EXPECT_TRUE(out.ends_with("\033[0m")) << out;
  EXPECT_EQ(printed({.colours = true}, {content("Yes")}), "Yes");
}

TEST(AnswerPrinter, ShowsControlCharactersOnTerminals) {
  const std::initializer_list<Json> objects = {thinking("\033[2J"), content("a\033]0;b\a\n")};
  EXPECT_EQ(printed({.is_terminal = true}, objects),
            "Thinking...\n␛[2J\n...done thinking.\n\na␛]0;b␇\n");
  // A file gets the exact bytes.
  EXPECT_EQ(printed({}, {content("a\033]0;b\a\n")}), "a\033]0;b\a\n");
}

TEST(AnswerPrinter, ReportsCalledFunctions) {
  const Json call = {
      {"message",
       {{"content", ""},
        {"tool_calls", {{{"function", {{"name", "f"}, {"arguments", {{"a", 1}}}}}}}}}}};
  EXPECT_EQ(printed({}, {call}),
            "  Model called a non-existent function 'f()' with arguments: {\"a\":1}\n\n");
}

TEST(WordWrap, BreaksBetweenWords) {
  WordWrap wrap(15);  // 10 columns for text
  EXPECT_EQ(wrap.wrapped("one two three\nx"), "one two th\033[2D\033[K\nthree\nx");
  WordWrap pieces(15);
  EXPECT_EQ(pieces.wrapped("one two th"), "one two th");
  EXPECT_EQ(pieces.wrapped("ree"), "\033[2D\033[K\nthree");
}

TEST(WordWrap, BreaksAtBlanksAndInsideLongWords) {
  WordWrap blank(15);
  EXPECT_EQ(blank.wrapped("0123456789 next"), "0123456789\nnext");
  WordWrap endless(15);
  EXPECT_EQ(endless.wrapped("012345678901"), "0123456789\n01");
  WordWrap wide(15);
  EXPECT_EQ(wide.wrapped("\u6f22\u6f22\u6f22\u6f22\u6f22\u6f22"),
            "\u6f22\u6f22\u6f22\u6f22\u6f22\n\u6f22");
}

TEST(WordWrap, ATabGoesToTheNextStop) {
  WordWrap wrap(25);  // 20 columns for text
  EXPECT_EQ(wrap.wrapped("\t\tabcd"), "\t\tabcd");
  EXPECT_EQ(wrap.wrapped("e"), "\033[4D\033[K\nabcde");
  WordWrap inside(25);
  EXPECT_EQ(inside.wrapped("abc\tde\tfghi jkl"), "abc\tde\tfghi\njkl");
  WordWrap end(25);
  EXPECT_EQ(end.wrapped("abcdefghijklmnopq\tr"), "abcdefghijklmnopq\nr");
  WordWrap small(11);  // 6 columns for text
  EXPECT_EQ(small.wrapped("\tab"), "\t\nab");
}

TEST(WordWrap, DoesNotWrapOnNarrowTerminals) {
  WordWrap none(0);
  EXPECT_EQ(none.wrapped(std::string(300, 'a')), std::string(300, 'a'));
  WordWrap narrow(9);
  EXPECT_EQ(narrow.wrapped("aaaa bbbb cccc"), "aaaa bbbb cccc");
}

TEST(Metrics, OmitFieldsThatAreZero) {
  EXPECT_EQ(metrics_text({{"done", true},
                          {"total_duration", 51'000'000},
                          {"load_duration", 9'000'000},
                          {"prompt_eval_count", 11},
                          {"prompt_eval_duration", 12'000'000},
                          {"eval_count", 2},
                          {"eval_duration", 20'000'000}}),
            "total duration:       51ms\n"
            "load duration:        9ms\n"
            "prompt eval count:    11 token(s)\n"
            "prompt eval duration: 12ms\n"
            "prompt eval rate:     916.67 tokens/s\n"
            "eval count:           2 token(s)\n"
            "eval duration:        20ms\n"
            "eval rate:            100.00 tokens/s\n");
  EXPECT_EQ(metrics_text({{"done", true}, {"eval_count", 0}}), "");
}

}  // namespace
}  // namespace billow::cli
