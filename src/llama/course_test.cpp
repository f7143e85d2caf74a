#include "llama/course.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "tokenizer/sample_vocabularies.h"

namespace billow::llama {
namespace {

using context::Step;
using engine::FinishReason;

const tokenizer::Tokenizer& vocabulary() {
  static const tokenizer::Tokenizer loaded = [] {
    const std::vector<std::byte> bytes = tokenizer::sample_bpe().to_bytes();
    return tokenizer::Tokenizer::load(gguf::File::parse(bytes, "sample"));
  }();
  return loaded;
}

int32_t id(std::string_view text) { return vocabulary().find(text); }

std::vector<int32_t> tokens(std::string_view text) {
  return vocabulary().encode(text, {.add_special = false});
}

runner::AnswerRequest request(size_t n_prompt = 4) {
  runner::AnswerRequest made;
  made.prompt.assign(n_prompt, id("a"));
  made.options.max_new_tokens = -1;
  return made;
}

// A llama-server that writes "a", "b", "a", "b" and so on.
class Scribe {
 public:
  explicit Scribe(runner::AnswerRequest wanted, size_t max_context = 64)
      : course(std::move(wanted), vocabulary(), max_context) {}

  void write(int32_t token) {
    ++n_;
    add(course.take({.token = engine::Sampled{.token = token},
                     .text = std::string(vocabulary().piece(token)),
                     .n_tokens = n_}));
  }
  // A whole stretch; returns how many tokens it had.
  size_t write_stretch() {
    const size_t n = course.stretch().n_predict;
    n_ = 0;
    while (n_ < n && !course.breaks_off()) write(id(n_written_++ % 2 == 0 ? "a" : "b"));
    if (!course.breaks_off()) add(course.take({.n_tokens = n_, .end = StretchEnd{}}));
    return n_;
  }
  void go_on() {
    add(course.apply(course.next(), {}, false));
    n_ = 0;
  }
  void end(bool is_end_token) {
    add(course.take({.n_tokens = n_, .end = StretchEnd{.is_end_token = is_end_token}}));
  }
  void add(const runner::Piece& piece) {
    text += piece.text;
    events.insert(events.end(), piece.events.begin(), piece.events.end());
  }

  AnswerCourse course;
  std::string text;
  std::vector<engine::SequenceEvent> events;

 private:
  size_t n_ = 0;
  size_t n_written_ = 0;
};

TEST(AnswerCourse, AShortAnswerIsOneStretch) {
  Scribe scribe(request());
  EXPECT_EQ(scribe.course.stretch().tokens.size(), 4u);
  scribe.write(id("a"));
  scribe.end(true);
  ASSERT_TRUE(scribe.course.ended());
  const runner::AnswerEnd end = scribe.course.end();
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(end.tokens, std::vector<int32_t>{id("a")});
  EXPECT_EQ(end.n_sampled, 2u) << "with the end token";
  EXPECT_EQ(scribe.text, "a");
}

TEST(AnswerCourse, EndsAfterAsManyTokensAsWereAskedFor) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 3;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.course.stretch().n_predict, 3u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kLength);
  EXPECT_EQ(scribe.text, "aba");
}

TEST(AnswerCourse, CountsTokensOfTheCacheHoweverTheAnswerEnds) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 1;
  Scribe scribe(wanted);
  const runner::Piece piece = scribe.course.take({.n_evaluated = 4, .n_cached = 3});
  EXPECT_EQ(piece.prefill.size(), 1u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.end().n_shared, 3u);
}

TEST(AnswerCourse, AnEndTokenIsNoPartOfTheAnswer) {
  Scribe scribe(request());
  scribe.write(id("<eos>"));
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kStop);
  EXPECT_TRUE(scribe.course.end().tokens.empty());
}

// The course that context::plan_run() foretells.
TEST(AnswerCourse, GrowsAndIsCompactedAsBillowsOwnAnswers) {
  for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kStop}) {
    runner::AnswerRequest wanted = request(5);
    wanted.options.max_new_tokens = 200;
    wanted.options.context.sizes = {8, 16, 32};
    wanted.options.context.policy = policy;
    wanted.options.context.compaction = {.reserve_batches = 1, .batch = 4};
    const context::Course course = {.ladder = context::Ladder(wanted.options.context.sizes, 32),
                                    .policy = policy,
                                    .compaction = wanted.options.context.compaction,
                                    .n_anchor = 5};
    const context::RunPlan plan = context::plan_run(course, 5, 200);
    Scribe scribe(wanted);
    while (!scribe.course.ended()) {
      EXPECT_LE(scribe.course.stretch().tokens.size(), scribe.course.rung() + 1);
      scribe.write_stretch();
      if (!scribe.course.ended()) scribe.go_on();
    }
    EXPECT_EQ(scribe.course.end().tokens.size(), plan.n_generated);
    ASSERT_EQ(scribe.events.size(), plan.events.size());
    for (size_t i = 0; i < plan.events.size(); ++i)
      EXPECT_EQ(scribe.events[i].event, plan.events[i]) << i;
    EXPECT_EQ(scribe.course.end().reason, FinishReason::kLength);
  }
}

TEST(AnswerCourse, WithoutGrowthItIsCompactedWhereItStands) {
  runner::AnswerRequest wanted = request(2);
  wanted.options.context.sizes = {8, 16};
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {.reserve_batches = 1, .batch = 1};
  Scribe scribe(wanted, 16);
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.next().step, Step::kGrow);
  EXPECT_EQ(scribe.course.without_growth().step, Step::kCompact);
  scribe.add(scribe.course.apply(scribe.course.without_growth(), {}, false));
  EXPECT_EQ(scribe.course.rung(), 8u);
  EXPECT_LT(scribe.course.stretch().tokens.size(), 8u);
}

TEST(AnswerCourse, StopStringsEndIt) {
  runner::AnswerRequest wanted = request();
  wanted.stop = {"ba"};
  Scribe scribe(wanted);
  scribe.write_stretch();
  EXPECT_EQ(scribe.text, "a");
  EXPECT_EQ(scribe.course.end().stop_string, "ba");
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kStop);
}

// llama-server names only the token that completes a character.
TEST(AnswerCourse, TokensWithinACharacterAreFound) {
  const std::vector<int32_t> euro = tokens("€");
  ASSERT_EQ(euro.size(), 3u);
  Scribe scribe(request());
  scribe.add(scribe.course.take(
      {.token = engine::Sampled{.token = euro.back()}, .text = "€", .n_tokens = 3}));
  scribe.end(true);
  EXPECT_EQ(scribe.text, "€");
  EXPECT_EQ(scribe.course.end().tokens, euro);
}

constraint::Constraint json_behind(std::string marker) {
  return {.grammar = {constraint::GrammarKind::kJsonObject}, .starts_behind = std::move(marker)};
}

TEST(AnswerCourse, AGrammarBeginsWithTheAnswer) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_behind("");
  wanted.options.context.sizes = {8, 64};
  Scribe scribe(wanted);
  EXPECT_NE(scribe.course.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.course.rung(), 64u) << "there is room for all of it from the beginning";
}

TEST(AnswerCourse, AGrammarBeginsBehindItsMarker) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_behind("ab");
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.course.stretch().grammar, nullptr);
  EXPECT_TRUE(scribe.course.stretch().ignore_eos) << "it may not end before";
  EXPECT_EQ(scribe.write_stretch(), 2u);
  ASSERT_FALSE(scribe.course.ended());
  scribe.go_on();
  EXPECT_NE(scribe.course.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.course.stretch().tokens.size(), 6u);
  EXPECT_FALSE(scribe.course.stretch().ignore_eos);
}

TEST(AnswerCourse, TheMarkerIsWrittenForAModelThatDoesNotComeToIt) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_behind("zz");
  wanted.constraint->starts_within = 3;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.write_stretch(), 3u);
  scribe.go_on();
  EXPECT_NE(scribe.course.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.text, "abazz");
}

TEST(AnswerCourse, AnAnswerThatDoesNotOpenFreelyBeginsAgainUnderTheGrammar) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_behind("zz");
  wanted.constraint->opens_with = "aa";
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.write_stretch(), 2u);
  EXPECT_EQ(scribe.text, "") << "what came is dropped";
  scribe.go_on();
  EXPECT_NE(scribe.course.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.course.stretch().tokens.size(), 4u);

  wanted.constraint->opens_with = "ab";
  Scribe opening(wanted);
  opening.write(id("a"));
  EXPECT_EQ(opening.text, "");
  opening.write(id("b"));
  EXPECT_EQ(opening.text, "ab");
  EXPECT_FALSE(opening.course.breaks_off());
}

TEST(AnswerCourse, WhatLlamaServerCannotDoIsRefused) {
  const auto refuses = [](runner::AnswerRequest wanted) {
    EXPECT_THROW(AnswerCourse(std::move(wanted), vocabulary(), 64), Error);
  };
  runner::AnswerRequest scored = request();
  scored.options.scores_prompt = true;
  refuses(scored);
  runner::AnswerRequest regex = request();
  regex.constraint = constraint::Constraint{.grammar = {constraint::GrammarKind::kRegex, "a"}};
  refuses(regex);
  refuses(request(0));
  refuses(request(65));
  runner::AnswerRequest strange = request();
  strange.prompt.back() = 1'000'000;
  refuses(strange);
}

TEST(AnswerCourse, AServerThatWritesNothingIsAFault) {
  Scribe scribe(request());
  scribe.end(false);
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kFailed);
  EXPECT_FALSE(scribe.course.end().error.empty());
}

TEST(AnswerCourse, LogProbabilitiesComeWithTheirTokens) {
  runner::AnswerRequest wanted = request();
  wanted.options.sampling.logprobs = true;
  wanted.options.sampling.top_logprobs = 1;
  AnswerCourse course(wanted, vocabulary(), 64);
  engine::Sampled sampled = {
      .token = id("a"), .logprob = -1, .top = {{id("a"), -1}, {id("b"), -2}}};
  const runner::Piece piece = course.take({.token = sampled, .text = "a", .n_tokens = 1});
  ASSERT_EQ(piece.sampled.size(), 1u);
  EXPECT_EQ(piece.sampled[0].logprob, -1.0f);
  EXPECT_EQ(piece.sampled[0].top.size(), 1u) << "as many as were asked for";
}

}  // namespace
}  // namespace billow::llama
