// Tests that answers with and without drafts are the same to the bit: tokens, log probabilities,
// ends, and the tokens at which the context grows or is compacted.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "constraint/guide.h"
#include "engine/answers.h"

namespace billow::engine {
namespace {

struct Way {
  const char* name;
  SequenceOptions options;
};

std::vector<Way> ways() {
  SequenceOptions penalties = drawn(3);
  penalties.sampling.temperature = 0.8f;
  penalties.sampling.repeat_penalty = 1.2f;
  penalties.sampling.presence_penalty = 0.4f;
  penalties.sampling.frequency_penalty = 0.2f;
  SequenceOptions logprobs = drawn(4);
  logprobs.sampling.logprobs = true;
  logprobs.sampling.top_logprobs = 5;
  SequenceOptions mirostat = drawn(5);
  mirostat.sampling.mirostat = 2;
  return {{"greedy", greedy(80)},
          {"drawn", drawn(2)},
          {"penalties", penalties},
          {"logprobs", logprobs},
          {"mirostat", mirostat}};
}

TEST(Speculation, AnswersAreBitIdentical) {
  size_t n_rejected = 0;
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    for (const kernels::KvType kv_type :
         {kernels::KvType::kInt16, kernels::KvType::kQ8_0, kernels::KvType::kQ4_0}) {
      const reference::TinyModelOptions model{.architecture = architecture,
                                              .type = quant::Type::kQ4_K};
      TinyEngine without(model, plain({.kv_type = kv_type}));
      TinyEngine with(model, drafting({.kv_type = kv_type}));
      for (const Way& way : ways()) {
        const Tokens prompt = random_tokens(90, 300, 7);
        const Whole expected = answer(without.engine, prompt, way.options);
        ASSERT_EQ(expected.n_drafted, 0u);
        const std::string what = std::string(architecture) + " " + way.name;
        SequenceOptions options = way.options;
        for (unsigned seed = 0; seed < 4; ++seed) {
          options.prediction = edited(expected.tokens, seed);
          const Whole partly = answer(with.engine, prompt, options);
          expect_same(expected, partly, what + ", predicted in parts");
          EXPECT_GT(partly.n_accepted, 5u) << what;
          n_rejected += partly.n_drafted - partly.n_accepted;
        }
        options.prediction = expected.tokens;
        const Whole found = answer(with.engine, prompt, options);
        expect_same(expected, found, what + ", predicted");
        EXPECT_GT(found.n_accepted, 40u) << what;
        EXPECT_LT(found.n_steps, expected.n_steps / 2) << what;
      }
    }
  }
  EXPECT_GT(n_rejected, 100u);
}

// Without a prediction, drafts come from the text itself and from recent answers.
TEST(Speculation, DraftsFromTheTextAndFromRecentAnswers) {
  const reference::TinyModelOptions model{.architecture = "llama"};
  TinyEngine without(model, plain());
  TinyEngine with(model, drafting());
  const Tokens prompt = random_tokens(40, 300, 9);
  const Whole expected = answer(without.engine, prompt, greedy(200));
  expect_same(expected, answer(with.engine, prompt, greedy(200)), "first");
  const Whole again = answer(with.engine, prompt, greedy(200));
  expect_same(expected, again, "again");
  EXPECT_GT(again.n_accepted, 150u);
}

TEST(Speculation, DraftsFromNoAnswerOfAnotherSalt) {
  TinyEngine with({.architecture = "llama"}, drafting());
  const Tokens prompt = random_tokens(40, 300, 9);
  SequenceOptions salted = greedy(200);
  salted.salt = 7;
  const Whole first = answer(with.engine, prompt, greedy(200));
  const Whole other = answer(with.engine, prompt, salted);
  EXPECT_EQ(other.n_drafted, first.n_drafted) << "as if the other answer had never been";
  EXPECT_EQ(other.n_accepted, first.n_accepted);
  EXPECT_GT(answer(with.engine, prompt, salted).n_accepted, 150u);
  salted.salt = 8;
  EXPECT_EQ(answer(with.engine, prompt, salted).n_drafted, first.n_drafted);
}

TEST(Speculation, BatchedSequencesEqualSingleOnes) {
  const reference::TinyModelOptions model{.architecture = "gemma3", .type = quant::Type::kQ4_K};
  for (const size_t n_batch : {512u, 40u}) {
    for (const int n_threads : {1, 2}) {
      TinyEngine without(model, plain());
      TinyEngine with(model, drafting({.n_threads = n_threads, .n_batch = n_batch}));
      std::vector<Whole> expected;
      std::vector<std::unique_ptr<Generation>> generations;
      for (unsigned i = 0; i < 7; ++i) {
        SequenceOptions options = drawn(i, 40 + 5 * i);
        const Tokens prompt = random_tokens(10 + 40 * i, 300, i);
        expected.push_back(answer(without.engine, prompt, options));
        options.prediction = edited(expected.back().tokens, i);
        if (i == 3) options.max_draft = 0;
        if (i == 4) options.max_draft = 2;
        generations.push_back(
            std::make_unique<Generation>(with.engine, prompt, options, std::vector<std::string>{}));
      }
      const std::vector<Whole> found = read_all(with.engine, generations);
      for (size_t i = 0; i < found.size(); ++i)
        expect_same(expected[i], found[i], "sequence " + std::to_string(i));
      EXPECT_EQ(found[3].n_drafted, 0u);
      EXPECT_LE(found[4].n_drafted, 2 * found[4].n_steps);
      EXPECT_EQ(with.engine.kv_bytes(), 0u);
    }
  }
}

TEST(Speculation, ContextsGrowAndCompactAtTheSameTokens) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const reference::TinyModelOptions model{.architecture = architecture};
    for (const context::OverflowPolicy policy :
         {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill,
          context::OverflowPolicy::kShift}) {
      SequenceOptions options = drawn(11, 400);
      options.context.max_context = 128;
      options.context.sizes = {32, 64, 128};
      options.context.policy = policy;
      TinyEngine without(model, plain());
      TinyEngine with(model, drafting());
      const Tokens prompt = random_tokens(20, 300, 12);
      const Whole expected = answer(without.engine, prompt, options);
      ASSERT_GE(expected.events.size(), 2u);
      for (unsigned seed = 0; seed < 5; ++seed) {
        options.prediction = seed == 0 ? expected.tokens : edited(expected.tokens, seed);
        const Whole found = answer(with.engine, prompt, options);
        expect_same(expected, found, std::string(architecture) + " " + std::to_string(seed));
        EXPECT_GT(found.n_accepted, 20u);
      }
    }
  }
}

// The text ends at its stop string, even if drafts after the stop string were accepted.
TEST(Speculation, StopStringsEndTheAnswerAtTheSamePlace) {
  const reference::TinyModelOptions model{.architecture = "qwen2"};
  TinyEngine without(model, plain());
  TinyEngine with(model, drafting());
  const Tokens prompt = random_tokens(30, 300, 14);
  const Whole whole = answer(without.engine, prompt, drawn(15, 60));
  size_t n_stopped = 0;
  for (size_t begin = 4; begin + 4 < whole.text.size(); begin += 9) {
    const std::string stop = whole.text.substr(begin, 3);
    const Whole expected = answer(without.engine, prompt, drawn(15, 60), {stop});
    SequenceOptions options = drawn(15, 60);
    options.prediction = whole.tokens;
    const Whole found = answer(with.engine, prompt, options, {stop});
    expect_same(expected, found, stop);
    n_stopped += found.reason == FinishReason::kStop ? 1 : 0;
  }
  EXPECT_GT(n_stopped, 5u);
}

TEST(Speculation, EndTokensAndLimitsEndTheAnswerAtTheSamePlace) {
  const reference::TinyModelOptions model{.architecture = "llama"};
  TinyEngine without(model, plain());
  TinyEngine with(model, drafting());
  const Tokens prompt = random_tokens(30, 300, 16);
  size_t n_ends = 0;
  for (int64_t seed = 0; seed < 25; ++seed) {
    SequenceOptions options = drawn(seed, 300);
    options.ignore_eos = false;
    options.sampling.temperature = 3.0f;
    const Whole expected = answer(without.engine, prompt, options);
    n_ends += expected.reason == FinishReason::kStop ? 1 : 0;
    options.prediction = expected.tokens;
    options.prediction.insert(options.prediction.end(), {1, 2, 3, 4, 5});
    expect_same(expected, answer(with.engine, prompt, options), "to its end");
    for (const int64_t n : {1, 2, 3, 17}) {
      options.max_new_tokens = n;
      expect_same(answer(without.engine, prompt, options), answer(with.engine, prompt, options),
                  "limited");
    }
  }
  EXPECT_GT(n_ends, 0u);
}

TEST(Speculation, GrammarsGiveTheSameAnswer) {
  const constraint::Constraint schema = {
      .grammar = {
          constraint::GrammarKind::kJsonSchema,
          R"({"type":"object","properties":{"the name":{"enum":["and the hat","in the sun"]},
                      "age":{"type":"integer","minimum":0,"maximum":120},"tags":{"type":"array",
                      "maxItems":6,"items":{"enum":["is for you","of the hen"]}}},
                      "required":["the name","age","tags"]})"}};
  TinyEngine without({}, plain());
  TinyEngine with({}, drafting());
  const auto held = [&](Engine& engine, SequenceOptions options) {
    options.guide = std::make_shared<constraint::Guide>(engine.vocabulary(), schema);
    return options;
  };
  const Tokens prompt = random_tokens(12, 300, 3);
  for (int64_t seed = 0; seed < 12; ++seed) {
    SequenceOptions options = drawn(seed, 400);
    options.sampling.logprobs = seed % 2 == 0;
    const Whole expected = answer(without.engine, prompt, held(without.engine, options));
    expect_same(expected, answer(with.engine, prompt, held(with.engine, options)),
                "without a prediction");
    for (unsigned edit = 0; edit < 3; ++edit) {
      options.prediction = edit == 0 ? expected.tokens : edited(expected.tokens, edit);
      const Whole found = answer(with.engine, prompt, held(with.engine, options));
      expect_same(expected, found, "predicted");
    }
  }
}

// The engine looks drafted tokens up in the model's embedding, so it refuses invalid token ids.
TEST(Speculation, RefusesPredictionWithInvalidTokens) {
  TinyEngine tiny({}, drafting());
  for (const int32_t wrong : {-1, 1000000, INT32_MIN, INT32_MAX}) {
    SequenceOptions options = greedy(5);
    options.prediction = {1, 2, wrong};
    EXPECT_THROW((void)tiny.engine.start({1, 2, 3}, options), Error) << wrong;
  }
  EXPECT_TRUE(tiny.engine.idle());
}

// The next turn of a conversation finds accepted drafts in the prefix index. It continues as after
// an evaluated prompt.
TEST(Speculation, AcceptedDraftsArePrefixOfTheNextPrompt) {
  const reference::TinyModelOptions model{.architecture = "llama"};
  TinyEngine without(model, plain({.max_cached = size_t{1} << 30}));
  TinyEngine with(model, drafting({.max_cached = size_t{1} << 30}));
  Tokens prompt = random_tokens(50, 300, 20);
  for (int turn = 0; turn < 4; ++turn) {
    SequenceOptions options = drawn(turn, 90);
    const Whole expected = answer(without.engine, prompt, options);
    options.prediction = edited(expected.tokens, static_cast<unsigned>(turn));
    expect_same(expected, answer(with.engine, prompt, options), "turn");
    prompt.insert(prompt.end(), expected.tokens.begin(), expected.tokens.end());
    prompt.push_back(5);
  }
}

// Sequences start, are held and are cancelled at random. Each answer is the same as alone.
TEST(Speculation, RandomOtherSequencesChangeNoAnswer) {
  const reference::TinyModelOptions model{.architecture = "gemma3", .type = quant::Type::kQ4_K};
  TinyEngine without(model, plain());
  std::mt19937 random(23);
#ifdef NDEBUG
  constexpr int kRounds = 6;
#else  // with sanitizers each step takes ten times as long
  constexpr int kRounds = 2;
#endif
  for (int round = 0; round < kRounds; ++round) {
    TinyEngine with(model, drafting({.n_batch = round % 2 == 0 ? size_t{64} : size_t{512},
                                     .max_cached = size_t{1} << 22}));
    struct One {
      std::shared_ptr<const Sequence> sequence;
      Tokens expected;
    };
    std::vector<One> all;
    for (int action = 0; action < 120; ++action) {
      const auto n_running = static_cast<size_t>(
          std::ranges::count_if(all, [](const One& one) { return !one.sequence->finished(); }));
      if (random() % 4 == 0 && n_running < with.engine.max_sequences()) {
        const auto seed = static_cast<unsigned>(random() % 5);
        SequenceOptions options = drawn(seed, 30 + 10 * static_cast<int64_t>(seed));
        const Tokens prompt = random_tokens(15 + 30 * seed, 300, seed);
        const Tokens expected = answer(without.engine, prompt, options).tokens;
        if (random() % 3 != 0)
          options.prediction = edited(expected, static_cast<unsigned>(random()));
        all.push_back({with.engine.start(prompt, options), expected});
      }
      if (!all.empty() && random() % 6 == 0) {
        const One& one = all[random() % all.size()];
        if (random() % 3 == 0)
          with.engine.finish(*one.sequence, FinishReason::kStop);
        else
          with.engine.hold(*one.sequence, random() % 2 == 0);
      }
      with.engine.step(random() % 5 == 0 ? 20 : SIZE_MAX);
    }
    for (const One& one : all) with.engine.hold(*one.sequence, false);
    while (!with.engine.idle()) with.engine.step();
    size_t n_accepted = 0;
    for (const One& one : all) {
      const auto written = one.sequence->tokens().subspan(one.sequence->n_prompt());
      ASSERT_LE(written.size(), one.expected.size());
      EXPECT_TRUE(std::ranges::equal(written, std::span(one.expected).first(written.size())));
      n_accepted += one.sequence->n_draft_accepted();
    }
    EXPECT_GT(n_accepted, 30u);
  }
}

}  // namespace
}  // namespace billow::engine
