// Tests answers that must follow a grammar: engine, sampler and grammar bridge together.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "constraint/guide.h"
#include "engine/generation.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

using constraint::Constraint;
using constraint::GrammarKind;

constexpr const char* kPerson =
    R"({"type":"object","properties":{"the name":{"enum":["and the hat","in the sun"]},
        "age":{"type":"integer","minimum":0,"maximum":120},"tags":{"type":"array","maxItems":3,
        "items":{"enum":["is for you","of the hen"]}}},"required":["the name","age","tags"]})";

Constraint schema(const char* text) { return {.grammar = {GrammarKind::kJsonSchema, text}}; }
Constraint regex(const char* text) { return {.grammar = {GrammarKind::kRegex, text}}; }

SequenceOptions drawn(int64_t seed) {
  SequenceOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.seed = seed;
  options.max_new_tokens = 400;
  options.ignore_eos = true;
  return options;
}

SequenceOptions held(Engine& engine, const Constraint& constraint, SequenceOptions options) {
  options.guide = std::make_shared<constraint::Guide>(engine.vocabulary(), constraint);
  return options;
}

struct Whole {
  std::string text;
  std::vector<int32_t> tokens;
  FinishReason reason{};
  std::string error;
  size_t n_steps = 0;
  std::vector<Sampled> sampled;
};

Whole read(Engine& engine, Generation& generation) {
  Whole whole;
  while (!generation.finished()) {
    ++whole.n_steps;
    for (const Engine::Token& token : engine.step()) {
      if (token.sequence.get() != &generation.sequence()) continue;
      whole.sampled.push_back(token.sampled);
      whole.text += generation.accept(token);
    }
  }
  whole.text += generation.finish();
  whole.tokens.assign(generation.tokens().begin(), generation.tokens().end());
  whole.reason = generation.sequence().finish_reason();
  whole.error = generation.sequence().error();
  return whole;
}

Whole answer(Engine& engine, const Constraint& constraint, const SequenceOptions& options,
             std::vector<std::string> stop = {}) {
  Generation generation(engine, random_tokens(12, 300, 3), held(engine, constraint, options),
                        std::move(stop));
  return read(engine, generation);
}

std::vector<reference::TinyModelOptions> vocabularies() {
  return {{}, {.vocabulary = reference::TinyVocabulary::kLlama2}, {.architecture = "gemma3"}};
}

TEST(Constraints, AnswersFollowTheGrammar) {
  for (const reference::TinyModelOptions& model : vocabularies()) {
    TinyEngine tiny(model, {.n_threads = 1});
    size_t n_ended = 0;
    for (int64_t seed = 0; seed < 12; ++seed) {
      const Whole whole = answer(tiny.engine, schema(kPerson), drawn(seed));
      ASSERT_EQ(whole.error, "");
      if (whole.reason != FinishReason::kStop) continue;
      ++n_ended;
      const Json json = Json::parse(whole.text, nullptr, false);
      ASSERT_TRUE(json.is_object()) << whole.text;
      EXPECT_EQ(json.size(), 3u);
      EXPECT_LE(json["age"].get<int>(), 120);
      EXPECT_LE(json["tags"].size(), 3u);
    }
    EXPECT_GT(n_ended, 6u);
  }
}

TEST(Constraints, EvaluatesForcedTokensInOneStep) {
  for (const reference::TinyModelOptions& model : vocabularies()) {
    TinyEngine tiny(model, {.n_threads = 1});
    const Whole whole = answer(tiny.engine, schema(kPerson), drawn(5));
    EXPECT_LT(whole.n_steps, whole.tokens.size());
  }
}

TEST(Constraints, ForcedTokensEqualTokensSampledOneByOne) {
  for (const reference::TinyModelOptions& model : vocabularies()) {
    TinyEngine tiny(model, {.n_threads = 1, .max_draft = 0});
    for (int64_t seed = 0; seed < 4; ++seed) {
      SequenceOptions options = drawn(seed);
      options.sampling.repeat_penalty = 1.3f;
      if (seed % 2 == 1) options.sampling.mirostat = 2;
      const Whole together = answer(tiny.engine, schema(kPerson), options);
      options.sampling.logprobs = true;  // with log probabilities, every token is sampled
      const Whole one_by_one = answer(tiny.engine, schema(kPerson), options);
      EXPECT_EQ(together.tokens, one_by_one.tokens);
      EXPECT_GE(one_by_one.n_steps, one_by_one.tokens.size());
      for (const Sampled& sampled : one_by_one.sampled) EXPECT_LT(sampled.logprob, 0.0f);
    }
  }
}

TEST(Constraints, AnswersAreEqualAloneAndInABatch) {
  const Constraint constraints[] = {
      schema(kPerson), regex("(the |and ){8}[0-9]{5}x"), {.grammar = {GrammarKind::kJsonObject}}};
  TinyEngine alone({}, {.n_threads = 1});
  std::vector<Whole> expected;
  for (int64_t i = 0; i < 6; ++i)
    expected.push_back(answer(alone.engine, constraints[static_cast<size_t>(i) % 3], drawn(i)));
  TinyEngine tiny({}, {.n_threads = 2, .n_batch = 24});
  std::vector<std::unique_ptr<Generation>> generations;
  for (int64_t i = 0; i < 6; ++i) {
    generations.push_back(std::make_unique<Generation>(
        tiny.engine, random_tokens(12, 300, 3),
        held(tiny.engine, constraints[static_cast<size_t>(i) % 3], drawn(i)),
        std::vector<std::string>()));
    generations.push_back(std::make_unique<Generation>(tiny.engine, random_tokens(40, 300, 9),
                                                       greedy(30), std::vector<std::string>()));
    if (i == 3) break;  // eight sequences
  }
  while (!tiny.engine.idle()) {
    for (const Engine::Token& token : tiny.engine.step())
      for (const auto& generation : generations)
        if (token.sequence.get() == &generation->sequence()) (void)generation->accept(token);
  }
  for (size_t i = 0; i < 4; ++i) {
    const std::span<const int32_t> tokens = generations[2 * i]->tokens();
    EXPECT_EQ(std::vector<int32_t>(tokens.begin(), tokens.end()), expected[i].tokens);
  }
}

TEST(Constraints, LimitsAndStopStringsApplyToForcedTokens) {
  TinyEngine tiny({}, {.n_threads = 1});
  const Constraint forced = regex("x[0-9]the end of it all is near[0-9]y");
  SequenceOptions options = drawn(1);
  const Whole whole = answer(tiny.engine, forced, options);
  ASSERT_GT(whole.tokens.size(), 8u);
  EXPECT_EQ(whole.reason, FinishReason::kStop);
  for (int64_t max = 1; max < static_cast<int64_t>(whole.tokens.size()); ++max) {
    options.max_new_tokens = max;
    const Whole cut = answer(tiny.engine, forced, options);
    EXPECT_EQ(cut.tokens.size(), static_cast<size_t>(max));
    EXPECT_TRUE(std::equal(cut.tokens.begin(), cut.tokens.end(), whole.tokens.begin()));
    EXPECT_EQ(cut.reason, FinishReason::kLength);
  }
  options = drawn(1);
  const Whole stopped = answer(tiny.engine, forced, options, {"end of"});
  EXPECT_EQ(stopped.text, whole.text.substr(0, whole.text.find("end of")));
  EXPECT_EQ(stopped.reason, FinishReason::kStop);
  EXPECT_LT(stopped.tokens.size(), whole.tokens.size());
}

TEST(Constraints, ForcedTokensNeverExceedTheContext) {
  const Constraint forced = regex("x(the end of it all is near ){40}");
  for (const context::OverflowPolicy policy :
       {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill,
        context::OverflowPolicy::kShift}) {
    TinyEngine tiny({}, {.n_threads = 1, .max_context = 128});
    SequenceOptions options = drawn(1);
    options.max_new_tokens = 300;
    options.context.sizes = {32, 64, 128};
    options.context.policy = policy;
    options.context.compaction = {2, 8};
    const Whole whole = answer(tiny.engine, forced, options);
    EXPECT_EQ(whole.error, "");
    EXPECT_TRUE(
        std::string("xthe end of it all is near the end").starts_with(whole.text.substr(0, 20)));
    EXPECT_EQ(whole.tokens.size(), policy == context::OverflowPolicy::kStop ? 117u : 300u);
  }
}

TEST(Constraints, TextBeforeTheMarkerIsFree) {
  TinyEngine tiny({}, {.n_threads = 1});
  Constraint constraint = regex("[0-9]{4}!");
  constraint.starts_after = " the end";
  constraint.starts_within = 9;
  const Whole whole = answer(tiny.engine, constraint, drawn(2));
  EXPECT_EQ(whole.reason, FinishReason::kStop);
  const size_t marker = whole.text.find(" the end");
  ASSERT_NE(marker, std::string::npos) << whole.text;
  const std::string held_text =
      whole.text.substr(whole.text.find_first_not_of(" \n\r\t", marker + 8));
  EXPECT_EQ(held_text.size(), 5u) << whole.text;
  EXPECT_EQ(held_text.back(), '!');
}

TEST(Constraints, GrammarRepeatsAfterItsMarker) {
  TinyEngine tiny({}, {.n_threads = 1});
  Constraint constraint = regex("[0-9]{4}!");
  constraint.starts_after = "e";
  constraint.may_not_start = true;
  constraint.repeats_after = ";";
  SequenceOptions options = drawn(3);
  const tokenizer::Tokenizer& tokenizer = tiny.engine.tokenizer();
  options.sampling.logit_bias = {{tokenizer.encode("e", {.add_special = false}).back(), 5.0f}};
  for (int32_t token = 0; tokenizer.has(token); ++token)
    if (tokenizer.is_end_of_generation(token))
      options.sampling.logit_bias.push_back({token, -1000.0f});
  const Whole together = answer(tiny.engine, constraint, options);
  EXPECT_EQ(together.reason, FinishReason::kLength) << together.text;
  const std::regex form("[0-9]{4}![ \\n\\r\\t]*;");
  EXPECT_GT(std::distance(std::sregex_iterator(together.text.begin(), together.text.end(), form),
                          std::sregex_iterator()),
            2)
      << together.text;
  options.sampling.logprobs = true;  // with log probabilities, every token is sampled
  EXPECT_EQ(answer(tiny.engine, constraint, options).tokens, together.tokens);
}

TEST(Constraints, ConstraintWithoutNextTokenEndsOnlyItsSequence) {
  TinyEngine tiny({}, {.n_threads = 1});
  // Part A of this grammar matches no text.
  const Constraint bad = {.grammar = {GrammarKind::kLark, "start: /[0-9]/ A\nA: /ab/ & /ac/"}};
  Generation failing(tiny.engine, {1, 2, 3}, held(tiny.engine, bad, drawn(1)), {});
  Generation other(tiny.engine, {1, 2, 3}, greedy(5), {});
  while (!tiny.engine.idle())
    for (const Engine::Token& token : tiny.engine.step())
      (void)(token.sequence.get() == &other.sequence() ? other : failing).accept(token);
  EXPECT_EQ(failing.sequence().finish_reason(), FinishReason::kFailed);
  EXPECT_NE(failing.sequence().error().find("allows no further token"), std::string::npos);
  EXPECT_EQ(other.sequence().n_generated(), 5u);
  EXPECT_EQ(other.sequence().error(), "");
}

TEST(Constraints, ReportsBiasThatForbidsEveryToken) {
  TinyEngine tiny({}, {.n_threads = 1});
  SequenceOptions options = drawn(1);
  for (int32_t token = 0; token < tiny.engine.tokenizer().n_tokens(); ++token)
    if (tiny.engine.tokenizer().piece(token).find_first_of("ab") != std::string_view::npos)
      options.sampling.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  const Whole whole = answer(tiny.engine, regex("[ab]{3}"), options);
  EXPECT_EQ(whole.reason, FinishReason::kFailed);
  EXPECT_NE(whole.error.find("the grammar leave no token"), std::string::npos) << whole.error;
}

// One request that allows no token must not cost other requests their cached prefixes.
TEST(Constraints, BiasThatForbidsEveryTokenKeepsTheCache) {
  TinyEngine tiny({.n_context = 512}, {.n_threads = 1, .max_cached = uint64_t{1} << 30});
  const std::vector<int32_t> prompt = random_tokens(200, 300, 1);
  (void)tiny.engine.start(prompt, greedy(4));
  while (!tiny.engine.idle()) tiny.engine.step();
  SequenceOptions options = greedy(4);
  for (int32_t token = 0; token < tiny.engine.tokenizer().n_tokens(); ++token)
    options.sampling.logit_bias.push_back({token, -std::numeric_limits<float>::infinity()});
  const auto failing = tiny.engine.start({1, 2, 3}, options);
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_EQ(failing->finish_reason(), FinishReason::kFailed);
  const auto later = tiny.engine.start(prompt, greedy(1));
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_GT(later->n_shared(), 0u);
}

}  // namespace
}  // namespace billow::engine
