#include "constraint/guide.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "constraint/sample_vocabulary.h"

namespace billow::constraint {
namespace {

const SampleTokens& sample() {
  static const SampleTokens tokens;
  return tokens;
}

std::shared_ptr<const Vocabulary> vocabulary() {
  static const std::shared_ptr<const Vocabulary> made = sample().vocabulary();
  return made;
}

Constraint digits_after(std::string marker) {
  return {.grammar = {GrammarKind::kRegex, "[0-9]{3}x"}, .starts_after = std::move(marker)};
}

// A guide and the text that it has accepted.
class Walk {
 public:
  explicit Walk(const Constraint& constraint, size_t max_forced = 0)
      : guide_(vocabulary(), constraint), max_forced_(max_forced) {}

  bool allows(int32_t token) {
    guide_.prepare();
    const std::span<const uint32_t> mask = guide_.allowed();
    const auto i = static_cast<size_t>(token);
    return mask.empty() || (mask[i / 32] >> (i % 32) & 1) != 0;
  }
  bool allows(std::string_view text) { return allows(sample().encode(text).front()); }

  // Accepts each token of the text. Expects that the guide allows it.
  Walk& write(std::string_view text) {
    for (const int32_t token : sample().encode(text)) {
      EXPECT_TRUE(allows(token)) << sample().text(token) << " after " << text_;
      text_ += sample().text(token);
      for (const int32_t forced : guide_.accept(token, sample().text(token), max_forced_))
        text_ += sample().text(forced);
    }
    return *this;
  }

  Guide& guide() { return guide_; }
  const std::string& text() const { return text_; }

 private:
  Guide guide_;
  size_t max_forced_;
  std::string text_;
};

TEST(Guide, EnforcesTheGrammarFromTheBeginning) {
  Walk walk({.grammar = {GrammarKind::kRegex, "[0-9]{3}x"}});
  EXPECT_TRUE(walk.guide().begun());
  EXPECT_FALSE(walk.allows("a"));
  EXPECT_FALSE(walk.allows(sample().end));
  walk.write("345");
  EXPECT_FALSE(walk.guide().done());
  EXPECT_FALSE(walk.allows("3"));
  walk.write("x");
  EXPECT_TRUE(walk.guide().done());
}

TEST(Guide, BeginsAfterTheMarker) {
  Walk walk(digits_after("</think>"));
  EXPECT_FALSE(walk.guide().begun());
  walk.write("abc </thi");
  EXPECT_FALSE(walk.allows(sample().end));  // the answer may not end before the grammar begins
  walk.write("</think>");
  EXPECT_TRUE(walk.guide().begun());
  EXPECT_FALSE(walk.allows("a"));
  EXPECT_TRUE(walk.allows("1"));
  walk.write("123x");
  EXPECT_TRUE(walk.guide().done());
}

TEST(Guide, FindsAMarkerThatTokensSplit) {
  Walk walk(digits_after("say abcb now"));
  walk.write("say ab");
  walk.write("say abc");
  walk.write("b no");
  EXPECT_FALSE(walk.guide().begun());
  walk.write("w");
  EXPECT_TRUE(walk.guide().begun());
}

TEST(Guide, ATokenCannotCompleteTheMarkerAndGoOn) {
  for (const bool may_not_start : {false, true}) {
    Constraint constraint = digits_after("ab");
    constraint.may_not_start = may_not_start;
    Walk whole(constraint);
    EXPECT_FALSE(whole.allows("abc"));  // the marker, and a letter that the grammar does not allow
    EXPECT_FALSE(whole.allows("abcd"));
    EXPECT_TRUE(whole.allows("aa"));
    EXPECT_TRUE(whole.allows("bc"));
    EXPECT_EQ(whole.allows(sample().end), may_not_start);
    Walk split(constraint);
    split.write("bc").write("aa");
    EXPECT_FALSE(split.allows("bc"));
    split.write("b").write("123x");
    EXPECT_TRUE(split.guide().done());
  }
}

TEST(Guide, BlanksAfterTheMarkerAreAllowed) {
  Walk walk(digits_after("</think>"));
  walk.write("</think>\n\n");
  EXPECT_TRUE(walk.allows("\n"));
  EXPECT_TRUE(walk.allows("1"));
  EXPECT_FALSE(walk.allows("a"));
  walk.write("\n").write("\n").write("\n");
  EXPECT_FALSE(walk.allows("\n"));  // the number of blanks is limited
  walk.write("123x");
  EXPECT_TRUE(walk.guide().done());
}

TEST(Guide, BlanksThatTheGrammarAllowsBelongToIt) {
  Walk walk({.grammar = {GrammarKind::kRegex, "\\n\\n1"}, .starts_after = "</think>"});
  walk.write("</think>").write("\n\n");
  EXPECT_FALSE(walk.allows("\n"));
  walk.write("1");
  EXPECT_TRUE(walk.guide().done());
}

TEST(Guide, AnAnswerWithoutTheOpenerIsConstrainedImmediately) {
  Constraint constraint = digits_after("</think>");
  constraint.opens_with = "<think>";
  Walk thinking(constraint);
  EXPECT_TRUE(thinking.allows("<think>"));
  EXPECT_TRUE(thinking.allows("1"));
  EXPECT_FALSE(thinking.allows("a"));
  thinking.write("<think>abc</think>345x");
  EXPECT_TRUE(thinking.guide().done());
  Walk terse(constraint);
  terse.write("345");
  EXPECT_FALSE(terse.allows("<think>"));
  terse.write("x");
  EXPECT_TRUE(terse.guide().done());
}

// An opener of several tokens, and a grammar whose texts begin as the opener does.
TEST(Guide, ComparesTheWholeOpenerWithTheAnswer) {
  const Constraint constraint = {.grammar = {GrammarKind::kRegex, "<a>[0-9]|<|<t[0-9]"},
                                 .starts_after = "</think>",
                                 .opens_with = "<thought>"};
  Walk thinking(constraint);
  thinking.write("<t");
  EXPECT_TRUE(thinking.allows("5"));
  EXPECT_TRUE(thinking.allows("h"));
  EXPECT_FALSE(thinking.allows("x"));
  thinking.write("hought");
  EXPECT_FALSE(thinking.allows("a"));
  EXPECT_FALSE(thinking.allows(sample().end));
  EXPECT_FALSE(thinking.guide().begun());
  thinking.write(">free</think><a>1");
  EXPECT_TRUE(thinking.guide().done());
  Walk answer(constraint);
  answer.write("<");
  EXPECT_TRUE(answer.allows(sample().end)) << "the grammar allows this text";
  answer.write("a");
  EXPECT_TRUE(answer.guide().begun());
  answer.write(">1");
  EXPECT_TRUE(answer.guide().done());
  // The grammar is over after the first token of the opener.
  Walk over({.grammar = {GrammarKind::kRegex, "<"},
             .starts_after = "</think>",
             .opens_with = "<thought>"});
  over.write("<");
  EXPECT_TRUE(over.allows(sample().end));
  EXPECT_TRUE(over.allows("t"));
  EXPECT_FALSE(over.allows("a"));
  over.write("thought></think><");
  EXPECT_TRUE(over.guide().done());
}

TEST(Guide, ForcesTheTextAfterTheMarker) {
  Constraint constraint = digits_after("</think>");
  constraint.forced_next = "ab: ";
  Walk walk(constraint, 100);
  walk.write("x</think>");
  EXPECT_EQ(walk.text(), "x</think>ab: ");
  EXPECT_TRUE(walk.guide().begun());
  walk.write("123");
  EXPECT_TRUE(walk.guide().done()) << "the last letter is forced";
  Walk one_by_one(constraint);
  one_by_one.write("</think>");
  EXPECT_FALSE(one_by_one.allows("1"));
  EXPECT_FALSE(one_by_one.allows(sample().end));
  one_by_one.write("ab: 123x");
  EXPECT_TRUE(one_by_one.guide().done());
  constraint.starts_within = 2;
  Walk late(constraint, 100);
  late.write("x").write("y");
  EXPECT_EQ(late.text(), "xy</think>ab: ");
}

TEST(Guide, ForcesTheMarkerIfAModelThinksTooLong) {
  Constraint constraint = digits_after("so </think>");
  constraint.starts_within = 3;
  Walk forced(constraint, 100);
  forced.write("a").write("b");
  EXPECT_FALSE(forced.guide().begun());
  forced.write("c");
  EXPECT_EQ(forced.text(), "abcso </think>");
  EXPECT_TRUE(forced.allows("1"));
  EXPECT_EQ(forced.guide().stats().n_forced, sample().encode("so </think>").size());
  // If nothing may be forced, the guide allows only the marker, token by token.
  Walk one_by_one(constraint);
  one_by_one.write("a").write("b").write("c");
  EXPECT_FALSE(one_by_one.allows("1"));
  one_by_one.write("so </think>123x");
  EXPECT_TRUE(one_by_one.guide().done());
}

TEST(Guide, AnswerMayEndBeforeTheMarkerIfMayNotStartIsSet) {
  Constraint constraint = digits_after("<think>");
  constraint.may_not_start = true;
  Walk walk(constraint);
  walk.write("abc");
  EXPECT_TRUE(walk.allows(sample().end));
  EXPECT_TRUE(walk.allows(sample().control));  // free text may contain any token
  walk.write("<think>");
  EXPECT_FALSE(walk.allows(sample().end));
  EXPECT_FALSE(walk.allows(sample().control));
}

Constraint repeating() {
  Constraint constraint = digits_after("<think>");
  constraint.may_not_start = true;
  constraint.repeats_after = "</a>";
  return constraint;
}

TEST(Guide, GrammarRepeatsAfterItsMarker) {
  Walk walk(repeating());
  walk.write("abc<think>\n123x");
  EXPECT_FALSE(walk.guide().done());
  EXPECT_TRUE(walk.guide().begun());
  EXPECT_FALSE(walk.allows("a"));
  EXPECT_FALSE(walk.allows("1")) << "a second text needs its own marker";
  EXPECT_TRUE(walk.allows(sample().end)) << "the answer may end without the closer";
  walk.write("\n<");
  EXPECT_FALSE(walk.allows(sample().end));
  EXPECT_FALSE(walk.allows("\n"));
  walk.write("/a>");
  EXPECT_FALSE(walk.guide().begun());
  EXPECT_TRUE(walk.allows(sample().end));
  EXPECT_TRUE(walk.allows("a"));
  walk.write(" 12 abc<think>");
  EXPECT_FALSE(walk.allows("a"));
  EXPECT_FALSE(walk.allows(sample().end));
  walk.write("\n\n345");
  EXPECT_FALSE(walk.allows("3")) << "the grammar is at its end again";
  walk.write("x</a>bye");
  EXPECT_FALSE(walk.guide().done());
  EXPECT_TRUE(walk.allows(sample().end));
}

TEST(Guide, BlanksBeforeTheCloserAreLimited) {
  Walk walk(repeating());
  walk.write("<think>123x").write("\n").write("\n").write("\n").write("\n");
  EXPECT_FALSE(walk.allows("\n"));
  EXPECT_TRUE(walk.allows(sample().end));
  walk.write("</a><think>");
  EXPECT_TRUE(walk.allows("\n")) << "the blanks count anew";
}

// The forced tokens of the closer are those that the masks allow one by one.
TEST(Guide, ForcesTheRestOfTheCloser) {
  Walk walk(repeating(), 100);
  walk.write("<think>123");
  EXPECT_EQ(walk.text(), "<think>123x");
  walk.write("<");
  EXPECT_EQ(walk.text(), "<think>123x</a>");
  EXPECT_FALSE(walk.guide().begun());
  Walk narrow(repeating(), 2);
  narrow.write("<think>123").write("<");
  EXPECT_EQ(narrow.text(), "<think>123x</a");
  EXPECT_TRUE(narrow.guide().begun());
  narrow.write(">b<think>");
  EXPECT_FALSE(narrow.allows("b"));
}

TEST(Guide, AnswerEndsWithTheGrammarWithoutACloser) {
  Constraint constraint = repeating();
  constraint.repeats_after = "";
  Walk walk(constraint);
  walk.write("<think>123x");
  EXPECT_TRUE(walk.guide().done());
}

TEST(Guide, ReturnsTheTokensThatMustFollow) {
  Walk walk({.grammar = {GrammarKind::kJsonSchema,
                         R"({"type":"object","properties":{"name":{"const":"hello"},
                             "age":{"type":"boolean"}},"required":["name","age"]})"}},
            100);
  walk.write("{\"");
  EXPECT_TRUE(walk.text().starts_with("{\"name")) << walk.text();
  EXPECT_GT(walk.guide().stats().n_forced, 0u);
  EXPECT_GT(walk.guide().stats().n_masks, 0u);
}

TEST(Guide, NeverForcesMoreThanMaxForced) {
  const Constraint constraint = {.grammar = {GrammarKind::kRegex, "x[0-9]hello worldy"}};
  for (const size_t max : {size_t{0}, size_t{1}, size_t{3}}) {
    Walk walk(constraint, max);
    walk.write("x");
    EXPECT_LE(walk.guide().stats().n_forced, max);
  }
}

TEST(Guide, AllowedThrowsTheErrorOfPrepare) {
  Guide guide(vocabulary(), {.grammar = {GrammarKind::kLark, "start: A\nA: /ab/ & /ac/"}});
  guide.prepare();
  EXPECT_THROW((void)guide.allowed(), Error);
}

}  // namespace
}  // namespace billow::constraint
