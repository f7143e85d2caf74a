#include "llama/answer_tracker.h"

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
      : tracker(std::move(wanted), vocabulary(), max_context) {}

  void write(int32_t token) {
    ++n_;
    add(tracker.take({.token = engine::Sampled{.token = token},
                      .text = std::string(vocabulary().piece(token)),
                      .n_tokens = n_}));
  }
  // Writes a whole stretch. Returns its number of tokens.
  size_t write_stretch() {
    const size_t n = tracker.stretch().n_predict;
    n_ = 0;
    while (n_ < n && !tracker.breaks_off()) write(id(n_written_++ % 2 == 0 ? "a" : "b"));
    if (!tracker.breaks_off()) add(tracker.take({.n_tokens = n_, .end = StretchEnd{}}));
    return n_;
  }
  void go_on() {
    add(tracker.apply(tracker.next(), {}, false));
    n_ = 0;
  }
  void end(bool is_end_token) {
    add(tracker.take({.n_tokens = n_, .end = StretchEnd{.is_end_token = is_end_token}}));
  }
  void add(const runner::Chunk& piece) {
    text += piece.text;
    events.insert(events.end(), piece.events.begin(), piece.events.end());
  }

  AnswerTracker tracker;
  std::string text;
  std::vector<engine::SequenceEvent> events;

 private:
  size_t n_ = 0;
  size_t n_written_ = 0;
};

TEST(AnswerTracker, ShortAnswerIsOneStretch) {
  Scribe scribe(request());
  EXPECT_EQ(scribe.tracker.stretch().tokens.size(), 4u);
  scribe.write(id("a"));
  scribe.end(true);
  ASSERT_TRUE(scribe.tracker.ended());
  const runner::AnswerEnd end = scribe.tracker.end();
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_EQ(end.tokens, std::vector<int32_t>{id("a")});
  EXPECT_EQ(end.n_sampled, 2u) << "with the end token";
  EXPECT_EQ(scribe.text, "a");
}

TEST(AnswerTracker, EndsAfterMaxNewTokens) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 3;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.tracker.stretch().n_predict, 3u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kLength);
  EXPECT_EQ(scribe.text, "aba");
}

TEST(AnswerTracker, CountsCachedTokensForEveryEnd) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 1;
  Scribe scribe(wanted);
  const runner::Chunk piece = scribe.tracker.take({.n_evaluated = 4, .n_cached = 3});
  EXPECT_EQ(piece.prefill.size(), 1u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.end().n_shared, 3u);
}

TEST(AnswerTracker, EndTokenIsNotPartOfAnswer) {
  Scribe scribe(request());
  scribe.write(id("<eos>"));
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kStop);
  EXPECT_TRUE(scribe.tracker.end().tokens.empty());
}

// Follows the predictions of context::plan_run().
TEST(AnswerTracker, GrowsAndCompactsLikeBillowsEngine) {
  for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kStop}) {
    runner::AnswerRequest wanted = request(5);
    wanted.options.max_new_tokens = 200;
    wanted.options.context.sizes = {8, 16, 32};
    wanted.options.context.policy = policy;
    wanted.options.context.compaction = {.reserve_batches = 1, .batch = 4};
    const context::ContextPlan context_plan = {
        .ladder = context::Ladder(wanted.options.context.sizes, 32),
        .policy = policy,
        .compaction = wanted.options.context.compaction,
        .n_anchor = 5};
    const context::RunPlan plan = context::plan_run(context_plan, 5, 200);
    Scribe scribe(wanted);
    while (!scribe.tracker.ended()) {
      EXPECT_LE(scribe.tracker.stretch().tokens.size(), scribe.tracker.rung() + 1);
      scribe.write_stretch();
      if (!scribe.tracker.ended()) scribe.go_on();
    }
    EXPECT_EQ(scribe.tracker.end().tokens.size(), plan.n_generated);
    ASSERT_EQ(scribe.events.size(), plan.events.size());
    for (size_t i = 0; i < plan.events.size(); ++i)
      EXPECT_EQ(scribe.events[i].event, plan.events[i]) << i;
    EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kLength);
  }
}

TEST(AnswerTracker, CompactsWithoutGrowth) {
  runner::AnswerRequest wanted = request(2);
  wanted.options.context.sizes = {8, 16};
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {.reserve_batches = 1, .batch = 1};
  Scribe scribe(wanted, 16);
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.next().step, Step::kGrow);
  EXPECT_EQ(scribe.tracker.without_growth().step, Step::kCompact);
  scribe.add(scribe.tracker.apply(scribe.tracker.without_growth(), {}, false));
  EXPECT_EQ(scribe.tracker.rung(), 8u);
  EXPECT_LT(scribe.tracker.stretch().tokens.size(), 8u);
}

TEST(AnswerTracker, StopStringEndsAnswer) {
  runner::AnswerRequest wanted = request();
  wanted.stop = {"ba"};
  Scribe scribe(wanted);
  scribe.write_stretch();
  EXPECT_EQ(scribe.text, "a");
  EXPECT_EQ(scribe.tracker.end().stop_string, "ba");
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kStop);
}

// llama-server reports only the token that completes a character.
TEST(AnswerTracker, FindsTokensWithinCharacter) {
  const std::vector<int32_t> euro = tokens("€");
  ASSERT_EQ(euro.size(), 3u);
  Scribe scribe(request());
  scribe.add(scribe.tracker.take(
      {.token = engine::Sampled{.token = euro.back()}, .text = "€", .n_tokens = 3}));
  scribe.end(true);
  EXPECT_EQ(scribe.text, "€");
  EXPECT_EQ(scribe.tracker.end().tokens, euro);
}

constraint::Constraint json_after(std::string marker) {
  return {.grammar = {constraint::GrammarKind::kJsonObject}, .starts_after = std::move(marker)};
}

TEST(AnswerTracker, GrammarBeginsWithAnswer) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_after("");
  wanted.options.context.sizes = {8, 64};
  Scribe scribe(wanted);
  EXPECT_NE(scribe.tracker.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.tracker.rung(), 64u) << "the whole answer has room from the beginning";
}

TEST(AnswerTracker, GrammarBeginsAfterMarker) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_after("ab");
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.tracker.stretch().grammar, nullptr);
  EXPECT_TRUE(scribe.tracker.stretch().ignore_eos) << "the answer may not end before the marker";
  EXPECT_EQ(scribe.write_stretch(), 2u);
  ASSERT_FALSE(scribe.tracker.ended());
  scribe.go_on();
  EXPECT_NE(scribe.tracker.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.tracker.stretch().tokens.size(), 6u);
  EXPECT_FALSE(scribe.tracker.stretch().ignore_eos);
}

TEST(AnswerTracker, WritesMarkerThatModelDoesNotWrite) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_after("zz");
  wanted.constraint->starts_within = 3;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.write_stretch(), 3u);
  scribe.go_on();
  EXPECT_NE(scribe.tracker.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.text, "abazz");
}

TEST(AnswerTracker, OtherOpeningRestartsWithGrammar) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_after("zz");
  wanted.constraint->opens_with = "aa";
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.write_stretch(), 2u);
  EXPECT_EQ(scribe.text, "") << "the text is dropped";
  scribe.go_on();
  EXPECT_NE(scribe.tracker.stretch().grammar, nullptr);
  EXPECT_EQ(scribe.tracker.stretch().tokens.size(), 4u);

  wanted.constraint->opens_with = "ab";
  Scribe opening(wanted);
  opening.write(id("a"));
  EXPECT_EQ(opening.text, "");
  opening.write(id("b"));
  EXPECT_EQ(opening.text, "ab");
  EXPECT_FALSE(opening.tracker.breaks_off());
}

TEST(AnswerTracker, GrammarRepeatsAfterItsMarker) {
  runner::AnswerRequest wanted = request();
  wanted.constraint = json_after("ab");
  wanted.constraint->may_not_start = true;
  Scribe once(wanted);
  once.write_stretch();
  once.go_on();
  once.write(id("a"));
  once.end(true);
  EXPECT_TRUE(once.tracker.ended()) << "the answer ends with the grammar";

  wanted.constraint->repeats_after = "zz";
  Scribe scribe(wanted);
  scribe.write_stretch();
  for (int i = 0; i < 2; ++i) {
    scribe.go_on();
    EXPECT_NE(scribe.tracker.stretch().grammar, nullptr);
    scribe.write(id("a"));
    scribe.end(true);
    ASSERT_FALSE(scribe.tracker.ended());
    EXPECT_TRUE(scribe.tracker.breaks_off());
    scribe.go_on();
    EXPECT_EQ(scribe.tracker.stretch().grammar, nullptr);
    EXPECT_FALSE(scribe.tracker.stretch().ignore_eos) << "the answer may end";
    if (i == 0) scribe.write_stretch();
  }
  EXPECT_EQ(scribe.text, "abazzabazz");
  scribe.end(true);
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kStop);
}

TEST(AnswerTracker, RepeatedTokenEndsAnswer) {
  runner::AnswerRequest wanted = request();
  wanted.max_repeats = 2;
  Scribe scribe(wanted);
  while (!scribe.tracker.ended() && scribe.text.size() < 10) scribe.write(id("a"));
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kRepeats);
  EXPECT_STREQ(engine::finish_reason_name(FinishReason::kRepeats), "repeats");
}

TEST(AnswerTracker, RefusesUnsupportedRequests) {
  const auto refuses = [](runner::AnswerRequest wanted) {
    EXPECT_THROW(AnswerTracker(std::move(wanted), vocabulary(), 64), Error);
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

TEST(AnswerTracker, EmptyAnswerIsFailure) {
  Scribe scribe(request());
  scribe.end(false);
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kFailed);
  EXPECT_FALSE(scribe.tracker.end().error.empty());
}

TEST(AnswerTracker, ReturnsLogProbabilitiesWithTokens) {
  runner::AnswerRequest wanted = request();
  wanted.options.sampling.logprobs = true;
  wanted.options.sampling.top_logprobs = 1;
  AnswerTracker tracker(wanted, vocabulary(), 64);
  engine::Sampled sampled = {
      .token = id("a"), .logprob = -1, .top = {{id("a"), -1}, {id("b"), -2}}};
  const runner::Chunk piece = tracker.take({.token = sampled, .text = "a", .n_tokens = 1});
  ASSERT_EQ(piece.sampled.size(), 1u);
  EXPECT_EQ(piece.sampled[0].logprob, -1.0f);
  EXPECT_EQ(piece.sampled[0].top.size(), 1u) << "the requested number";
}

TEST(AnswerTracker, HoldsBackLogProbabilitiesWithTheirText) {
  runner::AnswerRequest wanted = request();
  wanted.options.sampling.logprobs = true;
  wanted.stop = {"ba"};
  const auto n_shown = [&](std::string_view letters) {
    AnswerTracker tracker(wanted, vocabulary(), 64);
    std::vector<size_t> sizes;
    for (const char letter : letters) {
      const std::string text(1, letter);
      sizes.push_back(
          tracker.take({.token = engine::Sampled{.token = id(text)}, .text = text, .n_tokens = 1})
              .sampled.size());
    }
    sizes.push_back(tracker.finish().sampled.size());
    return sizes;
  };
  EXPECT_EQ(n_shown("aba"), (std::vector<size_t>{1, 0, 0, 0})) << "a stop string";
  EXPECT_EQ(n_shown("abb"), (std::vector<size_t>{1, 0, 1, 1})) << "the beginning of one";
}

// llama-server does not report a token that completes no character.
TEST(AnswerTracker, MayEndWithinCharacter) {
  runner::AnswerRequest wanted = request();
  wanted.options.max_new_tokens = 2;
  Scribe scribe(wanted);
  scribe.add(scribe.tracker.take({.n_tokens = 2, .end = StretchEnd{}}));
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kLength);
  EXPECT_EQ(scribe.tracker.end().error, "");

  wanted.options.max_new_tokens = 20;
  wanted.options.context.sizes = {5, 16, 64};
  Scribe cut(wanted);  // by the end of the rung, which holds two more tokens
  EXPECT_EQ(cut.tracker.rung(), 5u);
  cut.add(cut.tracker.take({.n_tokens = 2, .end = StretchEnd{}}));
  EXPECT_FALSE(cut.tracker.ended());
  cut.go_on();
  EXPECT_EQ(cut.tracker.rung(), 16u) << "so that the character fits";

  Scribe silent(request());
  silent.add(silent.tracker.take({.n_tokens = 0, .end = StretchEnd{}}));
  EXPECT_EQ(silent.tracker.end().error, "llama-server ended the answer before the first token");
}

// Returns a request with two tokens, an image of `n_rows` rows, and two tokens.
runner::AnswerRequest with_image(size_t n_rows) {
  runner::AnswerRequest made = request(4);
  made.images = {{.at = 2, .text_at = 2, .n_rows = n_rows, .png = "png"}};
  made.prompt_text = "aaaa";
  return made;
}

TEST(AnswerTracker, ImagesUsePositionsAndGoAsText) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.context.sizes = {16, 32, 64};
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.tracker.rung(), 16u);
  const Stretch first = scribe.tracker.stretch("<M>");
  ASSERT_TRUE(first.text);
  EXPECT_EQ(first.text->text, "aaaa");
  EXPECT_EQ(first.text->images[0].base64, "cG5n");
  EXPECT_EQ(first.n_predict, 3u) << "16 positions: 14 of the prompt, and one token needs none";
  scribe.tracker.take({.n_evaluated = 0, .n_prompt = 14});
  scribe.write_stretch();
  scribe.go_on();
  EXPECT_EQ(scribe.tracker.rung(), 32u);
  EXPECT_EQ(scribe.tracker.stretch("<M>").text->text, "aaaaaba") << "with the written text";
}

TEST(AnswerTracker, LlamaServerReportsImageRows) {
  runner::AnswerRequest wanted = with_image(100);
  wanted.options.context.sizes = {16, 128};
  wanted.options.max_new_tokens = 2;
  Scribe scribe(wanted, 128);
  EXPECT_EQ(scribe.tracker.rung(), 128u);
  scribe.tracker.take({.n_evaluated = 0, .n_prompt = 9});
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.end().n_prompt, 9u);
}

TEST(AnswerTracker, GrowsBeforeFirstTokenForMoreImageRows) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 32, 64};
  wanted.options.max_new_tokens = 20;
  Scribe scribe(wanted);
  EXPECT_EQ(scribe.tracker.rung(), 16u);
  const runner::Chunk piece = scribe.tracker.take({.n_evaluated = 0, .n_prompt = 20});
  EXPECT_TRUE(scribe.tracker.breaks_off());
  EXPECT_FALSE(scribe.tracker.ended());
  ASSERT_EQ(scribe.tracker.next().step, Step::kGrow);
  scribe.go_on();
  EXPECT_EQ(scribe.tracker.rung(), 32u);
  EXPECT_EQ(scribe.tracker.stretch("<M>").n_predict, 13u);
  scribe.write_stretch();
  scribe.go_on();
  EXPECT_EQ(scribe.tracker.rung(), 64u);
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.end().tokens.size(), 20u);
  EXPECT_EQ(scribe.tracker.end().n_prompt, 20u);
}

TEST(AnswerTracker, MoreImageRowsKeepRoomForAnswer) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.max_context = 16;
  wanted.options.max_new_tokens = 10;
  Scribe scribe(wanted);
  scribe.tracker.take({.n_evaluated = 0, .n_prompt = 40});
  scribe.go_on();
  EXPECT_EQ(scribe.tracker.rung(), 51u) << "grows by the additional rows";
  scribe.write_stretch();
  EXPECT_EQ(scribe.tracker.end().tokens.size(), 10u);
}

TEST(AnswerTracker, RefusedPromptGrowsOnce) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 32, 64};
  Scribe scribe(wanted);
  EXPECT_TRUE(scribe.tracker.learn_length(40));
  EXPECT_FALSE(scribe.tracker.learn_length(40)) << "no news";
  EXPECT_FALSE(scribe.tracker.learn_length(2)) << "fewer than its tokens";
  scribe.go_on();
  EXPECT_EQ(scribe.tracker.rung(), 64u);
  EXPECT_THROW(scribe.tracker.learn_length(65), Error);
  Scribe text(request());
  EXPECT_FALSE(text.tracker.learn_length(40)) << "no images";
}

TEST(AnswerTracker, PromptWithoutMemoryIsError) {
  runner::AnswerRequest wanted = with_image(1);
  wanted.options.context.sizes = {16, 64};
  Scribe small(wanted);
  EXPECT_TRUE(small.tracker.learn_length(40));
  EXPECT_THROW(small.tracker.without_growth(), Error);
}

// Images are part of the prompt, so a compaction keeps all of them.
TEST(AnswerTracker, CompactionsKeepImages) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.max_new_tokens = 100;
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {1, 8};
  Scribe scribe(wanted, 64);
  size_t n_compactions = 0;
  while (!scribe.tracker.ended()) {
    scribe.write_stretch();
    if (scribe.tracker.ended()) break;
    n_compactions += scribe.tracker.next().step == Step::kCompact ? 1 : 0;
    scribe.go_on();
    const Stretch stretch = scribe.tracker.stretch("<M>");
    EXPECT_EQ(stretch.text->images.size(), 1u);
    EXPECT_TRUE(stretch.text->text.starts_with("aaaa"));
    EXPECT_EQ(stretch.text->text.size(), stretch.tokens.size()) << "each token is a letter";
    EXPECT_LE(stretch.tokens.size() + 10, 65u);
  }
  EXPECT_GT(n_compactions, 0u);
  EXPECT_EQ(scribe.tracker.end().tokens.size(), 100u);
}

// The written text goes to llama-server as text, and llama-server tokenizes it again.
TEST(AnswerTracker, CountsAdditionalTokensOfText) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.max_new_tokens = 60;
  wanted.options.context.sizes = {16, 32, 64};
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  wanted.options.context.compaction = {1, 8};
  Scribe scribe(wanted, 64);
  bool is_compacted = false;
  size_t n_stretches = 0;
  while (!scribe.tracker.ended() && ++n_stretches < 50) {
    const size_t n_read = 10 + 2 * scribe.tracker.stretch("<M>").tokens.size() - 4;
    const size_t rung = scribe.tracker.rung();
    scribe.tracker.take({.n_evaluated = 0, .n_prompt = n_read});
    if (!scribe.tracker.breaks_off()) {
      EXPECT_LE(n_read + scribe.tracker.stretch("<M>").n_predict, rung + 1);
      scribe.write_stretch();
    }
    if (scribe.tracker.ended()) break;
    is_compacted = is_compacted || scribe.tracker.next().step == Step::kCompact;
    scribe.go_on();
  }
  EXPECT_TRUE(is_compacted);
  EXPECT_EQ(scribe.tracker.end().tokens.size(), 60u);
}

TEST(AnswerTracker, TextWithoutRoomEndsAnswer) {
  runner::AnswerRequest wanted = with_image(10);
  wanted.options.context.policy = context::OverflowPolicy::kRefill;
  Scribe scribe(wanted, 64);
  scribe.write(id("a"));
  for (int i = 0; i < 9 && !scribe.tracker.ended(); ++i) {
    EXPECT_TRUE(scribe.tracker.learn_length(1000));
    scribe.go_on();
  }
  EXPECT_EQ(scribe.tracker.end().reason, FinishReason::kLength);
}

}  // namespace
}  // namespace billow::llama
