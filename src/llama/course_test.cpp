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

// llama-server tells no token that completes no character.
TEST(AnswerCourse, MayEndWithinACharacter) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 2;
  Scribe scribe(wanted);
  scribe.add(scribe.course.take({.n_tokens = 2, .end = StretchEnd{}}));
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kLength);
  EXPECT_EQ(scribe.course.end().error, "");

  wanted.options.max_new_tokens = 20;
  wanted.options.context.sizes = {5, 16, 64};
  Scribe cut(wanted);  // by the end of the rung, which holds two tokens more
  EXPECT_EQ(cut.course.rung(), 5u);
  cut.add(cut.course.take({.n_tokens = 2, .end = StretchEnd{}}));
  EXPECT_FALSE(cut.course.ended());
  cut.go_on();
  EXPECT_EQ(cut.course.rung(), 16u) << "so that the character fits";

  Scribe silent(request());
  silent.add(silent.course.take({.n_tokens = 0, .end = StretchEnd{}}));
  EXPECT_EQ(silent.course.end().error, "llama-server ended the answer before it wrote a token");
}

// Two tokens, an image of so many rows, two tokens.
runner::AnswerRequest with_image(size_t n_rows) {
  runner::AnswerRequest made = request(4);
  made.images = {{.at = 2, .text_at = 2, .n_rows = n_rows, .png = "png"}};
  made.prompt_text = "aaaa";
  return made;
}

TEST(AnswerCourse, ImagesTakePositionsAndGoAsText) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.context.sizes = {16, 32, 64};
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.course.rung(), 16u);
  const Stretch first = scribe.course.stretch("<M>");
  ASSERT_TRUE(first.text);
  EXPECT_EQ(first.text->text, "aaaa");
  EXPECT_EQ(first.text->images[0].base64, "cG5n");
  EXPECT_EQ(first.n_predict, 3u) << "16 positions: 14 of the prompt, and one token needs none";
  scribe.course.take({.n_evaluated = 0, .n_prompt = 14});
  scribe.write_stretch();
  scribe.go_on();
  EXPECT_EQ(scribe.course.rung(), 32u);
  EXPECT_EQ(scribe.course.stretch("<M>").text->text, "aaaaaba") << "with what was written";
}

TEST(AnswerCourse, LlamaServerSaysHowManyRowsImagesHave) {
  runner::AnswerRequest wanted = with_image(100);
  wanted.options.context.sizes = {16, 128};
  wanted.options.max_new_tokens = 2;
  Scribe scribe(wanted, 128);
  EXPECT_EQ(scribe.course.rung(), 128u);
  scribe.course.take({.n_evaluated = 0, .n_prompt = 9});
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.end().n_prompt, 9u);
}

TEST(AnswerCourse, GrowsBeforeItIsWrittenWhereImagesHaveMoreRows) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 32, 64};
  wanted.options.max_new_tokens = 20;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.course.rung(), 16u);
  const runner::Piece piece = scribe.course.take({.n_evaluated = 0, .n_prompt = 20});
  EXPECT_TRUE(scribe.course.breaks_off());
  EXPECT_FALSE(scribe.course.ended());
  ASSERT_EQ(scribe.course.next().step, Step::kGrow);
  scribe.go_on();
  EXPECT_EQ(scribe.course.rung(), 32u);
  EXPECT_EQ(scribe.course.stretch("<M>").n_predict, 13u);
  scribe.write_stretch();
  scribe.go_on();
  EXPECT_EQ(scribe.course.rung(), 64u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.end().tokens.size(), 20u);
  EXPECT_EQ(scribe.course.end().n_prompt, 20u);
}

TEST(AnswerCourse, MoreRowsTakeNoRoomFromTheAnswer) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.max_context = 16;
  wanted.options.max_new_tokens = 10;
  Scribe scribe(wanted);
  scribe.course.take({.n_evaluated = 0, .n_prompt = 40});
  scribe.go_on();
  EXPECT_EQ(scribe.course.rung(), 51u) << "as many more as the image has";
  scribe.write_stretch();
  EXPECT_EQ(scribe.course.end().tokens.size(), 10u);
}

TEST(AnswerCourse, ARefusedPromptGrowsOnce) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 32, 64};
  Scribe scribe(wanted);
  EXPECT_TRUE(scribe.course.learn_length(40));
  EXPECT_FALSE(scribe.course.learn_length(40)) << "no news";
  EXPECT_FALSE(scribe.course.learn_length(2)) << "fewer than its tokens";
  scribe.go_on();
  EXPECT_EQ(scribe.course.rung(), 64u);
  EXPECT_THROW(scribe.course.learn_length(65), Error);
  Scribe text(request());
  EXPECT_FALSE(text.course.learn_length(40)) << "no images";
}

TEST(AnswerCourse, APromptThatGetsNoMemoryIsAnError) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 64};
  Scribe small(wanted);
  EXPECT_TRUE(small.course.learn_length(40));
  EXPECT_THROW(small.course.without_growth(), Error);
}

// Images are part of the prompt, so all of them stay.
TEST(AnswerCourse, CompactionsKeepImages) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.max_new_tokens = 100;
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {1, 8};
  Scribe scribe(wanted, 64);
  size_t n_compactions = 0;
  while (!scribe.course.ended()) {
    scribe.write_stretch();
    if (scribe.course.ended()) break;
    n_compactions += scribe.course.next().step == Step::kCompact ? 1 : 0;
    scribe.go_on();
    const Stretch stretch = scribe.course.stretch("<M>");
    EXPECT_EQ(stretch.text->images.size(), 1u);
    EXPECT_TRUE(stretch.text->text.starts_with("aaaa"));
    EXPECT_EQ(stretch.text->text.size(), stretch.tokens.size()) << "each token is a letter";
    EXPECT_LE(stretch.tokens.size() + 10, 65u);
  }
  EXPECT_GT(n_compactions, 0u);
  EXPECT_EQ(scribe.course.end().tokens.size(), 100u);
}

// What was written goes as text, of which llama-server makes its own tokens.
TEST(AnswerCourse, TextThatBecomesMoreTokensTakesTheirRoom) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.max_new_tokens = 60;
  wanted.options.context.sizes = {16, 32, 64};
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {1, 8};
  Scribe scribe(wanted, 64);
  bool is_compacted = false;
  size_t n_stretches = 0;
  while (!scribe.course.ended() && ++n_stretches < 50) {
    const size_t n_read = 10 + 2 * scribe.course.stretch("<M>").tokens.size() - 4;
    const size_t rung = scribe.course.rung();
    scribe.course.take({.n_evaluated = 0, .n_prompt = n_read});
    if (!scribe.course.breaks_off()) {
      EXPECT_LE(n_read + scribe.course.stretch("<M>").n_predict, rung + 1);
      scribe.write_stretch();
    }
    if (scribe.course.ended()) break;
    is_compacted = is_compacted || scribe.course.next().step == Step::kCompact;
    scribe.go_on();
  }
  EXPECT_TRUE(is_compacted);
  EXPECT_EQ(scribe.course.end().tokens.size(), 60u);
}

TEST(AnswerCourse, TextThatHasNoRoomEndsTheAnswer) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  Scribe scribe(wanted, 64);
  scribe.write(id("a"));
  for (int i = 0; i < 9 && !scribe.course.ended(); ++i) {
    EXPECT_TRUE(scribe.course.learn_length(1000));
    scribe.go_on();
  }
  EXPECT_EQ(scribe.course.end().reason, FinishReason::kLength);
}

}  // namespace
}  // namespace billow::llama
