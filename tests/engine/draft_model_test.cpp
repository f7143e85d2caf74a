// Tests a draft model: answers are the same to the bit for any draft, and the ledger grants the
// draft model's memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/test_folder.h"
#include "constraint/guide.h"
#include "engine/answers.h"
#include "engine/describe.h"

namespace billow::engine {
namespace {

// The file of a generated model. The destructor removes it.
struct TinyFile {
  explicit TinyFile(const reference::TinyModelOptions& model) {
    reference::write_tiny_model(model, path);
  }

  TestFolder folder;
  const std::string path = folder.file("tiny.gguf");
};

EngineOptions guessing(const TinyFile& draft, EngineOptions options = {}) {
  options.draft_model = draft.path;
  return drafting(options);
}

const reference::TinyModelOptions kTarget = {.architecture = "llama", .type = quant::Type::kQ4_K};
// The target's weights with other rounding: most drafts are right.
const reference::TinyModelOptions kAlike = {.architecture = "llama", .type = quant::Type::kQ8_0};
// Another model with the same vocabulary: few drafts are right.
const reference::TinyModelOptions kOther = {.architecture = "qwen2", .n_layers = 2, .seed = 9};

TEST(DraftModel, AnswersAreBitIdentical) {
  for (const reference::TinyModelOptions& model : {kTarget, kAlike, kOther}) {
    const TinyFile draft(model);
    size_t n_drafted = 0;
    for (const kernels::KvType kv_type : {kernels::KvType::kInt16, kernels::KvType::kQ8_0}) {
      TinyEngine without(kTarget, plain({.kv_type = kv_type}));
      TinyEngine with(kTarget, guessing(draft, {.kv_type = kv_type}));
      for (const SequenceOptions& options : ways_to_draw()) {
        const Tokens prompt = random_tokens(90, 300, 7);
        const Whole expected = answer(without.engine, prompt, options);
        const Whole found = answer(with.engine, prompt, options);
        expect_same(expected, found, model.architecture);
        n_drafted += found.n_drafted;
      }
    }
    EXPECT_GT(n_drafted, 100u);
  }
}

// The model drafts for itself. Greedy sampling then accepts every draft of the model.
TEST(DraftModel, ModelDraftsForItselfWithoutErrors) {
  const TinyFile draft(kTarget);
  TinyEngine without(kTarget, plain());
  TinyEngine with(kTarget, guessing(draft));
  const Tokens prompt = random_tokens(40, 300, 3);
  SequenceOptions options = greedy(60);
  options.max_draft = 5;
  const Whole expected = answer(without.engine, prompt, options);
  const Whole found = answer(with.engine, prompt, options);
  expect_same(expected, found, "itself");
  // Some passes use drafts from earlier text instead, which may be wrong.
  EXPECT_GT(found.n_accepted, 35u);
  EXPECT_LT(found.n_steps, 25u);
}

TEST(DraftModel, SimilarModelIsMostlyRightAndOtherModelIsNot) {
  const Tokens prompt = random_tokens(40, 300, 5);
  const auto share = [&](const reference::TinyModelOptions& model) {
    const TinyFile draft(model);
    TinyEngine with(kTarget, guessing(draft));
    SequenceOptions options = greedy(100);
    options.max_draft = 3;
    const Whole found = answer(with.engine, prompt, options);
    return static_cast<double>(found.n_accepted) / static_cast<double>(found.n_drafted);
  };
  EXPECT_GT(share(kAlike), share(kOther));
}

TEST(DraftModel, BatchedSequencesEqualSingleOnes) {
  const TinyFile draft(kAlike);
  for (const size_t n_batch : {512u, 40u}) {
    TinyEngine without(kTarget, plain());
    TinyEngine with(kTarget, guessing(draft, {.n_threads = 2, .n_batch = n_batch}));
    std::vector<Whole> expected;
    std::vector<std::unique_ptr<Generation>> generations;
    for (unsigned i = 0; i < 7; ++i) {
      SequenceOptions options = i % 2 == 0 ? greedy(40 + 5 * i) : drawn(i, 40 + 5 * i);
      const Tokens prompt = random_tokens(10 + 60 * i, 300, i);  // some take several passes
      expected.push_back(answer(without.engine, prompt, options));
      if (i == 3) options.max_draft = 0;
      generations.push_back(
          std::make_unique<Generation>(with.engine, prompt, options, std::vector<std::string>{}));
    }
    const std::vector<Whole> found = read_all(with.engine, generations);
    size_t n_accepted = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      expect_same(expected[i], found[i], "sequence " + std::to_string(i));
      n_accepted += found[i].n_accepted;
    }
    EXPECT_EQ(found[3].n_drafted, 0u);
    EXPECT_GT(n_accepted, 60u);
    EXPECT_EQ(with.engine.kv_bytes(), 0u);
    EXPECT_EQ(with.engine.memory().kv_in_use, 0u);
  }
}

TEST(DraftModel, ContextsGrowAndCompactAtTheSameTokens) {
  const TinyFile draft(kAlike);
  for (const char* architecture : {"llama", "qwen2"}) {
    const reference::TinyModelOptions model{.architecture = architecture,
                                            .type = quant::Type::kQ4_K};
    for (const context::OverflowPolicy policy :
         {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill,
          context::OverflowPolicy::kShift}) {
      SequenceOptions options = drawn(11, 400);
      options.sampling.temperature = 0.3f;
      options.context.max_context = 128;
      options.context.sizes = {32, 64, 128};
      options.context.policy = policy;
      TinyEngine without(model, plain());
      TinyEngine with(model, guessing(draft));
      const Tokens prompt = random_tokens(20, 300, 12);
      const Whole expected = answer(without.engine, prompt, options);
      const Whole found = answer(with.engine, prompt, options);
      expect_same(expected, found, architecture);
      EXPECT_GT(found.n_drafted, 20u);
    }
  }
}

TEST(DraftModel, GrammarsGiveTheSameAnswer) {
  const constraint::Constraint schema = {
      .grammar = {
          constraint::GrammarKind::kJsonSchema,
          R"({"type":"object","properties":{"age":{"type":"integer","minimum":0,"maximum":120},
              "tags":{"type":"array","maxItems":6,"items":{"enum":["is for you","of the hen"]}}},
              "required":["age","tags"]})"}};
  const TinyFile draft(kAlike);
  TinyEngine without(kTarget, plain());
  TinyEngine with(kTarget, guessing(draft));
  const auto held = [&](Engine& engine, SequenceOptions options) {
    options.guide = std::make_shared<constraint::Guide>(engine.vocabulary(), schema);
    return options;
  };
  const Tokens prompt = random_tokens(12, 300, 3);
  for (int64_t seed = 0; seed < 8; ++seed) {
    SequenceOptions options = drawn(seed, 400);
    options.sampling.logprobs = seed % 2 == 0;
    expect_same(answer(without.engine, prompt, held(without.engine, options)),
                answer(with.engine, prompt, held(with.engine, options)), "held");
  }
}

// The engine's memory need includes the draft model's weights, KV of a rung and scratch. No pass
// exceeds it.
TEST(DraftModel, MemoryIsGrantedAndDescribed) {
  const TinyFile draft(kAlike);
  TinyEngine without(kTarget, drafting());
  TinyEngine with(kTarget, guessing(draft, {.max_sequences = 3}));
  EXPECT_GT(with.engine.need().weight_bytes, without.engine.need().weight_bytes);
  EXPECT_GT(with.engine.need().kv_bytes(500), without.engine.need().kv_bytes(500));
  EXPECT_EQ(with.engine.memory().weights, with.engine.need().weight_bytes);
  for (unsigned i = 0; i < 3; ++i) with.engine.start(random_tokens(50, 300, i), greedy(100));
  size_t max = 0;
  while (!with.engine.idle()) {
    with.engine.step();
    const MemoryUse use = with.engine.memory();
    EXPECT_LE(use.kv_in_use, use.kv_granted);
    EXPECT_LE(use.scratch, use.scratch_granted);
    max = std::max(max, use.kv_in_use - with.engine.kv_bytes());
  }
  EXPECT_GT(max, 0u);  // the draft model had KV
  const TinyFile target(kTarget);
  DescribeOptions options;
  options.n_parallel = 3;
  options.n_threads = with.engine.n_threads();
  options.draft_model = draft.path;
  EXPECT_EQ(describe(gguf::File::open(target.path), options).memory, with.engine.need());
}

TEST(DraftModel, AnswersContinueWhenMemoryIsShort) {
  const TinyFile draft(kAlike);
  TinyEngine without(kTarget, plain());
  TinyEngine measured(kTarget, guessing(draft, {.max_sequences = 4}));
  const context::MemoryNeed& need = measured.engine.need();
  TinyEngine with(kTarget,
                  guessing(draft, {.max_sequences = 4,
                                   .memory_budget = need.weight_bytes + need.scratch_bytes(2048) +
                                                    2 * need.kv_bytes(512)}));
  std::vector<Whole> expected;
  std::vector<std::unique_ptr<Generation>> generations;
  for (unsigned i = 0; i < 4; ++i) {
    const Tokens prompt = random_tokens(30 + i, 300, i);
    expected.push_back(answer(without.engine, prompt, greedy(60)));
    generations.push_back(
        std::make_unique<Generation>(with.engine, prompt, greedy(60), std::vector<std::string>{}));
  }
  const std::vector<Whole> found = read_all(with.engine, generations);
  for (size_t i = 0; i < found.size(); ++i) expect_same(expected[i], found[i], "short of memory");
}

TEST(DraftModel, IsNotLoadedIfDraftsAreOff) {
  EngineOptions options = plain();
  options.draft_model = "/there/is/none.gguf";
  TinyEngine tiny(kTarget, options);
  EXPECT_EQ(answer(tiny.engine, {1, 2, 3}, greedy(5)).tokens.size(), 5u);
}

TEST(DraftModel, RefusesOtherVocabulary) {
  const auto refusal = [](const std::string& path) {
    try {
      EngineOptions options;
      options.draft_model = path;
      TinyEngine tiny(kTarget, options);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const TinyFile gemma({.architecture = "gemma3"});
  const std::string line = refusal(gemma.path);
  EXPECT_NE(line.find("cannot draft for tiny.gguf"), std::string::npos) << line;
  EXPECT_NE(line.find("the same vocabulary"), std::string::npos) << line;
  EXPECT_EQ(line.find('\n'), std::string::npos);
  EXPECT_NE(refusal("/there/is/none.gguf").find("/there/is/none.gguf"), std::string::npos);
}

// If a draft model is rarely right, the engine asks it less and less. Eager drafts ignore the time
// that a draft costs, so this test uses the default options. If the system delays the first passes,
// drafts look cheap for a while.
TEST(DraftModel, IsRarelyAskedIfNeverRight) {
  constexpr size_t kMaxDrafted = 120;
  constexpr int kMaxRounds = 10;
  const TinyFile draft(kOther);
  EngineOptions options;
  options.draft_model = draft.path;
  size_t n_drafted = kMaxDrafted;
  for (int round = 0; round < kMaxRounds && n_drafted >= kMaxDrafted; ++round) {
    TinyEngine with(kTarget, options);
    n_drafted = answer(with.engine, random_tokens(40, 300, 5), drawn(1, 600)).n_drafted;
  }
  EXPECT_LT(n_drafted, kMaxDrafted);
}

}  // namespace
}  // namespace billow::engine
