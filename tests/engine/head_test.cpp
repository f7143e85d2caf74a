// Tests predicting heads: a head computes what its tensors say, its guesses change no answer, and
// its memory is granted.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "constraint/guide.h"
#include "engine/answers.h"
#include "engine/describe.h"
#include "engine/draft_model.h"
#include "engine/tiny_head.h"

namespace billow::engine {
namespace {

// A model with a predicting head, in memory, and an engine that runs it.
struct HeadEngine {
  explicit HeadEngine(const TinyHeadOptions& model, const EngineOptions& options = {})
      : bytes(TinyHeadFile(model).bytes()),
        engine(gguf::File::parse(bytes, "tiny.gguf"), with_one_thread(options)) {}
  std::vector<std::byte> bytes;
  Engine engine;
};

// The token with the max logit, and its probability.
DraftModel::Guess likeliest(std::span<const float> logits) {
  const auto max = std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit - *max));
  return {static_cast<int32_t>(max - logits.begin()), static_cast<float>(1.0 / sum)};
}

// Runs the head of a model over tokens after the first one, with these states of the model.
DraftModel::Guess guess(Engine& engine, const Tokens& tokens, std::vector<float> states) {
  DraftModel head(*engine.loaded().head(), engine.kernels(), {.max_context = 4096});
  DraftModel::Text text(head);
  text.keep_states(0, {states.data(), states.size() / kTinyHeadWidth, kTinyHeadWidth});
  const size_t n = text.follow(tokens, 4096);
  EXPECT_EQ(n, std::min(tokens.size() - 1, kKeptStates));
  cpu::ThreadTeam team(2);
  tensor::Arena arena;
  std::vector<DraftModel::Guess> guesses;
  const std::span<const int32_t> unread = std::span<const int32_t>(tokens).last(n);
  for (size_t done = 0; done < n;) {
    const size_t n_now = std::min(n - done, kDraftBatch);
    const DraftModel::Reading reading = {&text, unread.subspan(done, n_now), done + n_now == n};
    guesses = head.read({engine.kernels(), team, arena}, {&reading, 1}, kTinyHeadWords);
    done += n_now;
  }
  return guesses.at(0);
}

// If the first product takes only the token, the head is a model of one layer whose embeddings are
// normed. The same holds for the state.
TEST(Head, EqualsItsBlockAsAModel) {
  const TinyHeadFile file({});
  HeadEngine block({.is_head_alone = true}, {.kernels = kernels::tables().back()});
  for (const size_t n : {2u, 20u, 100u}) {
    const Tokens tokens = random_tokens(n, kTinyHeadWords, 3);
    const Tokens others = random_tokens(n, kTinyHeadWords, 4);
    std::vector<float> states;  // the embeddings of other tokens
    for (size_t i = 1; i < n; ++i) {
      const std::vector<float> row = file.embedding(others[i]);
      states.insert(states.end(), row.begin(), row.end());
    }
    for (const Joined joined : {Joined::kToken, Joined::kState}) {
      const Tokens& seen = joined == Joined::kToken ? tokens : others;
      const std::vector<float> logits =
          logits_of(block.engine, std::span<const int32_t>(seen).subspan(1), n - 2);
      const DraftModel::Guess expected = likeliest(logits);
      HeadEngine model({.joined = joined}, {.kernels = kernels::tables().back()});
      const DraftModel::Guess found = guess(model.engine, tokens, states);
      EXPECT_EQ(found.token, expected.token) << n;
      EXPECT_NEAR(found.probability, expected.probability, 1e-4f) << n;
    }
  }
}

TEST(Head, AnswersAreBitIdentical) {
  for (const bool has_states : {false, true}) {
    const TinyHeadOptions model = {.n_layers = 4, .has_states = has_states};
    for (const kernels::KvType kv_type : {kernels::KvType::kInt16, kernels::KvType::kQ8_0}) {
      HeadEngine without(model, plain({.kv_type = kv_type}));
      HeadEngine with(model, drafting({.kv_type = kv_type}));
      EXPECT_EQ(without.engine.loaded().head(), nullptr);
      ASSERT_NE(with.engine.loaded().head(), nullptr);
      size_t n_drafted = 0;
      for (const size_t n_prompt : {1u, 90u, 700u}) {
        for (const SequenceOptions& options : ways_to_draw()) {
          const Tokens prompt = random_tokens(n_prompt, kTinyHeadWords, 7);
          const Whole expected = answer(without.engine, prompt, options);
          const Whole found = answer(with.engine, prompt, options);
          expect_same(expected, found, has_states ? "states" : "attention");
          n_drafted += found.n_drafted;
        }
      }
      EXPECT_GT(n_drafted, 100u);
    }
  }
}

// The model's next token depends on the last token only, and the head guesses it. So all guesses
// are accepted, also those that continue from the head's own states.
TEST(Head, RightGuessesAreAccepted) {
  const TinyHeadOptions model = {.has_states = false, .joined = Joined::kToken, .is_trivial = true};
  HeadEngine without(model, plain());
  HeadEngine with(model, drafting());
  SequenceOptions options = greedy(60);
  options.max_draft = 4;
  const Tokens prompt = random_tokens(40, kTinyHeadWords, 3);
  const Whole expected = answer(without.engine, prompt, options);
  const Whole found = answer(with.engine, prompt, options);
  expect_same(expected, found, "trivial");
  EXPECT_GT(found.n_accepted, 35u);
  EXPECT_LT(found.n_steps, 25u);
}

TEST(Head, BatchedSequencesEqualSingleOnes) {
  for (const size_t n_batch : {512u, 40u}) {
    HeadEngine without({.n_layers = 4}, plain());
    HeadEngine with({.n_layers = 4}, drafting({.n_threads = 2, .n_batch = n_batch}));
    std::vector<Whole> expected;
    std::vector<std::unique_ptr<Generation>> generations;
    for (unsigned i = 0; i < 7; ++i) {
      SequenceOptions options = i % 2 == 0 ? greedy(40 + 5 * i) : drawn(i, 40 + 5 * i);
      const Tokens prompt = random_tokens(10 + 60 * i, kTinyHeadWords, i);
      expected.push_back(answer(without.engine, prompt, options));
      if (i == 3) options.max_draft = 0;
      generations.push_back(
          std::make_unique<Generation>(with.engine, prompt, options, std::vector<std::string>{}));
    }
    const auto text = with.engine.embed(random_tokens(80, kTinyHeadWords, 50));
    const std::vector<Whole> found = read_all(with.engine, generations);
    for (size_t i = 0; i < found.size(); ++i)
      expect_same(expected[i], found[i], "sequence " + std::to_string(i));
    EXPECT_EQ(found[3].n_drafted, 0u);
    // A text that is embedded in the same passes gets its own hidden states.
    HeadEngine alone({.n_layers = 4}, plain());
    const auto same = alone.engine.embed(random_tokens(80, kTinyHeadWords, 50));
    while (!alone.engine.idle()) alone.engine.step();
    ASSERT_TRUE(text->finished() && same->finished());
    EXPECT_EQ(std::vector<float>(text->vector().begin(), text->vector().end()),
              std::vector<float>(same->vector().begin(), same->vector().end()));
    EXPECT_EQ(with.engine.memory().kv_in_use, 0u);
  }
}

TEST(Head, ContextsGrowAndCompactAtTheSameTokens) {
  for (const bool has_states : {false, true}) {
    for (const context::OverflowPolicy policy :
         {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill,
          context::OverflowPolicy::kShift}) {
      if (has_states && policy == context::OverflowPolicy::kShift) continue;  // states cannot shift
      SequenceOptions options = drawn(11, 400);
      options.sampling.temperature = 0.3f;
      options.context.max_context = 128;
      options.context.sizes = {32, 64, 128};
      options.context.policy = policy;
      const TinyHeadOptions model = {.n_layers = 4, .has_states = has_states};
      HeadEngine without(model, plain());
      HeadEngine with(model, drafting());
      const Tokens prompt = random_tokens(20, kTinyHeadWords, 12);
      expect_same(answer(without.engine, prompt, options), answer(with.engine, prompt, options),
                  "overflow");
    }
  }
}

// A second prompt with the same prefix has no states for the shared tokens.
TEST(Head, SharedPrefixesGiveTheSameAnswer) {
  const TinyHeadOptions model = {.n_layers = 4, .has_states = false};
  HeadEngine without(model, plain());
  HeadEngine with(model, drafting({.max_cached = 64 << 20}));
  Tokens prompt = random_tokens(200, kTinyHeadWords, 5);
  for (unsigned turn = 0; turn < 4; ++turn) {
    const Whole expected = answer(without.engine, prompt, greedy(30));
    expect_same(expected, answer(with.engine, prompt, greedy(30)), "turn " + std::to_string(turn));
    prompt.insert(prompt.end(), expected.tokens.begin(), expected.tokens.end());
    const Tokens more = random_tokens(20, kTinyHeadWords, 60 + turn);
    prompt.insert(prompt.end(), more.begin(), more.end());
  }
}

TEST(Head, GrammarsGiveTheSameAnswer) {
  const constraint::Constraint schema = {
      .grammar = {
          constraint::GrammarKind::kJsonSchema,
          R"({"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":120},
              "tags":{"type":"array","maxItems":6,"items":{"enum":["is for you","of the hen"]}}},
              "required":["age","tags"]})"}};
  HeadEngine without({.n_layers = 4}, plain());
  HeadEngine with({.n_layers = 4}, drafting());
  const auto held = [&](Engine& engine, SequenceOptions options) {
    options.guide = std::make_shared<constraint::Guide>(engine.vocabulary(), schema);
    return options;
  };
  for (int64_t seed = 0; seed < 4; ++seed) {
    const Tokens prompt = random_tokens(12, kTinyHeadWords, 3);
    SequenceOptions options = drawn(seed, 400);
    options.sampling.logprobs = seed % 2 == 0;
    expect_same(answer(without.engine, prompt, held(without.engine, options)),
                answer(with.engine, prompt, held(with.engine, options)), "held");
  }
}

// The engine's memory need includes the head's KV and scratch. No pass exceeds it.
TEST(Head, MemoryIsGrantedAndDescribed) {
  const TinyHeadOptions model = {.n_layers = 4, .has_states = false};
  HeadEngine without(model, plain({.max_sequences = 3}));
  HeadEngine with(model, drafting({.max_sequences = 3}));
  EXPECT_GT(with.engine.need().kv_bytes(500), without.engine.need().kv_bytes(500));
  EXPECT_EQ(with.engine.memory().weights, with.engine.need().weight_bytes);
  for (unsigned i = 0; i < 3; ++i)
    with.engine.start(random_tokens(50, kTinyHeadWords, i), greedy(100));
  size_t max = 0;
  while (!with.engine.idle()) {
    with.engine.step();
    const MemoryUse use = with.engine.memory();
    EXPECT_LE(use.kv_in_use, use.kv_granted);
    EXPECT_LE(use.scratch, use.scratch_granted);
    max = std::max(max, use.kv_in_use - with.engine.kv_bytes());
  }
  EXPECT_GT(max, 0u);  // the head had KV
  DescribeOptions options;
  options.n_parallel = 3;
  options.n_threads = with.engine.n_threads();
  EXPECT_EQ(describe(gguf::File::parse(with.bytes, "tiny.gguf"), options).memory,
            with.engine.need());
}

// An incomplete head is an error that names the tensor.
TEST(Head, MissingNormIsRefused) {
  TinyHeadFile file({});
  std::vector<std::byte> bytes = file.bytes();
  const std::string name = "blk.2.nextn.hnorm.weight";
  const auto* begin = reinterpret_cast<const char*>(bytes.data());
  const size_t at = std::string_view(begin, bytes.size()).find(name);
  ASSERT_NE(at, std::string_view::npos);
  bytes[at + name.size() - 1] = std::byte{'x'};  // now the file has no such tensor
  try {
    const Engine engine(gguf::File::parse(bytes, "tiny.gguf"), EngineOptions{});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace billow::engine
