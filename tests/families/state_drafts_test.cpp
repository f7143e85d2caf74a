// Tests drafts of models with recurrent states, which cannot be truncated. For any rejected draft,
// answers are the same to the bit. The same holds for texts that continue such an answer.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/answers.h"
#include "families/family_files.h"
#include "tokenizer/same_vocabulary.h"

namespace billow::families {
namespace {

using engine::answer;
using engine::drafting;
using engine::drawn;
using engine::Engine;
using engine::EngineOptions;
using engine::FinishReason;
using engine::plain;
using engine::SequenceOptions;
using engine::Tokens;
using engine::Whole;

constexpr uint64_t kPlenty = uint64_t{1} << 30;

std::vector<std::string> families_with_states() {
  const std::vector<std::string> all = family_names();
  std::vector<std::string> found;
  for (const char* name :
       {"arwkv7", "falcon-h1", "granitehybrid", "jamba", "kimi-linear", "lfm2", "lfm2moe", "mamba",
        "mamba2", "nemotron-h", "nemotron-h-moe", "qwen35", "qwen35moe", "qwen3next", "rwkv7"})
    if (std::ranges::find(all, name) != all.end()) found.emplace_back(name);
  return found;
}

class StateDrafts : public testing::TestWithParam<std::string> {
 protected:
  // Returns a prompt of n tokens, from position `first` of the family's tokens.
  Tokens prompt(size_t n, size_t first = 0) const {
    Tokens out;
    for (size_t i = 0; i < n; ++i)
      out.push_back(family_.tokens[(first + i) % family_.tokens.size()]);
    return out;
  }
  static SequenceOptions reporting(int64_t seed, int64_t n) {
    SequenceOptions options = drawn(seed, n);
    options.sampling.logprobs = true;
    return options;
  }
  Tokens edited(const Tokens& answer, unsigned seed) const {
    return engine::edited(answer, seed, static_cast<unsigned>(family_.logits.n_cols));
  }
  // Returns the answer with each n_right-th token replaced, so that drafts are wrong there.
  Tokens wrong_after(const Tokens& answer, size_t n_right) const {
    Tokens out = answer;
    for (size_t i = n_right; i < out.size(); i += n_right + 1)
      out[i] = family_.tokens[i % family_.tokens.size()] == out[i]
                   ? 1
                   : family_.tokens[i % family_.tokens.size()];
    return out;
  }

  Family family_ = read_family(GetParam(), BILLOW_FLOAT_FAMILIES);
};

TEST_P(StateDrafts, WrongDraftAtAnyTokenChangesNoAnswer) {
  std::vector<kernels::KvType> kv_types = {kernels::KvType::kInt16, kernels::KvType::kQ8_0};
#ifndef NDEBUG  // with sanitizers each step takes ten times as long
  kv_types.pop_back();
#endif
  for (const kernels::KvType kv_type : kv_types) {
    Engine without(family_.path, plain({.n_threads = 1, .kv_type = kv_type}));
    size_t n_accepted = 0;
    size_t n_rejected = 0;
    for (const size_t n_prompt : {1u, 40u, 64u}) {
      const SequenceOptions options = reporting(static_cast<int64_t>(n_prompt), 60);
      const Whole expected = answer(without, prompt(n_prompt), options);
      for (size_t n_right = 0; n_right < 18; n_right += n_right < 4 ? 1 : 5) {
        // Each answer needs a new engine, because an engine drafts from its earlier answers.
        Engine with(family_.path, drafting({.n_threads = 1, .kv_type = kv_type}));
        ASSERT_GT(with.memory().kv_state, 0u);
        SequenceOptions predicted = options;
        predicted.prediction =
            n_right == 0 ? expected.tokens : wrong_after(expected.tokens, n_right);
        const Whole found = answer(with, prompt(n_prompt), predicted);
        expect_same(expected, found,
                    std::to_string(n_prompt) + " tokens, wrong after " + std::to_string(n_right));
        n_accepted += found.n_accepted;
        n_rejected += found.n_drafted - found.n_accepted;
        EXPECT_EQ(with.kv_bytes(), 0u);
      }
    }
    EXPECT_GT(n_accepted, 200u);
    EXPECT_GT(n_rejected, 200u);
  }
}

// If passes have few rows, the tokens that are evaluated again may need several passes.
TEST_P(StateDrafts, SmallPassesAndParallelSequencesChangeNoAnswer) {
  Engine without(family_.path, plain({.n_threads = 1}));
  for (const size_t n_batch : {3u, 20u, 512u}) {
    Engine with(family_.path, drafting({.n_threads = 1, .n_batch = n_batch, .max_sequences = 3}));
    std::vector<Whole> expected;
    std::vector<std::unique_ptr<engine::Generation>> generations;
    for (unsigned i = 0; i < 3; ++i) {
      SequenceOptions options = reporting(i, 40 + 10 * i);
      expected.push_back(answer(without, prompt(20 + 25 * i, i), options));
      options.prediction = edited(expected.back().tokens, i);
      generations.push_back(std::make_unique<engine::Generation>(
          with, prompt(20 + 25 * i, i), options, std::vector<std::string>{}));
    }
    const std::vector<Whole> found = read_all(with, generations);
    for (size_t i = 0; i < found.size(); ++i)
      expect_same(expected[i], found[i], "batch " + std::to_string(n_batch));
  }
}

TEST_P(StateDrafts, ContextsGrowAndAreCompactedAtTheSameTokens) {
  for (const context::OverflowPolicy policy :
       {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill}) {
    SequenceOptions options = reporting(11, 250);
    options.context.max_context = 100;
    options.context.sizes = {32, 70, 100};
    options.context.policy = policy;
    Engine without(family_.path, plain({.n_threads = 1}));
    Engine with(family_.path, drafting({.n_threads = 1}));
    const Whole expected = answer(without, prompt(20), options);
    ASSERT_GE(expected.events.size(), 2u);
    size_t n_accepted = 0;
    for (unsigned seed = 0; seed < 4; ++seed) {
      options.prediction = seed == 0 ? expected.tokens : edited(expected.tokens, seed);
      const Whole found = answer(with, prompt(20), options);
      expect_same(expected, found, "edited " + std::to_string(seed));
      n_accepted += found.n_accepted;
    }
    EXPECT_GT(n_accepted, 40u);
  }
}

// A text continues an answer that ended at any token, even within a draft. Only states of accepted
// tokens may be cached.
TEST_P(StateDrafts, TextsContinueAnswersThatEndedAtAnyToken) {
  Engine without(family_.path, plain({.n_threads = 1}));
  const Tokens begin = prompt(40);
  const Whole whole = answer(without, begin, reporting(7, 110));
  size_t n_shared = 0;
  for (int64_t n = 20; n <= 110; n += n < 30 || n > 84 ? 1 : 9) {  // covers ends near a block's end
    Engine with(family_.path, drafting({.n_threads = 1, .max_cached = kPlenty}));
    SequenceOptions options = reporting(7, n);
    options.prediction = edited(whole.tokens, static_cast<unsigned>(n));
    (void)answer(with, begin, options);
    Tokens next = begin;
    next.insert(next.end(), whole.tokens.begin(), whole.tokens.begin() + n);
    next.push_back(family_.tokens[3]);
    const auto sequence = with.start(next, engine::greedy(1));
    while (!with.idle()) with.step();
    n_shared += sequence->n_shared();
    const Whole expected = answer(without, next, reporting(8, 4));
    const Whole found = answer(with, next, reporting(8, 4));
    expect_same(expected, found, "after " + std::to_string(n));
  }
  EXPECT_GT(n_shared, 1000u);
}

TEST_P(StateDrafts, CancelledAnswerLeavesNoWrongState) {
  Engine without(family_.path, plain({.n_threads = 1}));
  const Tokens begin = prompt(50);
  const Whole whole = answer(without, begin, reporting(9, 90));
  Engine with(family_.path, drafting({.n_threads = 1, .max_cached = kPlenty}));
  for (size_t n_steps = 2; n_steps < 30; n_steps += 3) {
    SequenceOptions options = reporting(9, 90);
    options.prediction = edited(whole.tokens, static_cast<unsigned>(n_steps));
    const auto sequence = with.start(begin, options);
    for (size_t i = 0; i < n_steps; ++i) with.step();
    with.finish(*sequence, FinishReason::kStop);
    Tokens next(sequence->tokens().begin(), sequence->tokens().end());
    ASSERT_TRUE(std::ranges::equal(std::span(next).subspan(50),
                                   std::span(whole.tokens).first(next.size() - 50)));
    next.push_back(family_.tokens[1]);
    expect_same(answer(without, next, reporting(1, 3)), answer(with, next, reporting(1, 3)),
                "cancelled after " + std::to_string(n_steps));
  }
}

TEST_P(StateDrafts, StopStringsEndTheAnswerAtTheSamePlace) {
  Engine without(family_.path, plain({.n_threads = 1}));
  Engine with(family_.path, drafting({.n_threads = 1, .max_cached = kPlenty}));
  const Whole whole = answer(without, prompt(30), drawn(15, 60));
  for (size_t begin = 4; begin + 4 < whole.text.size(); begin += 1 + whole.text.size() / 8) {
    const std::string stop = whole.text.substr(begin, 3);
    const Whole expected = answer(without, prompt(30), drawn(15, 60), {stop});
    SequenceOptions options = drawn(15, 60);
    options.prediction = whole.tokens;
    expect_same(expected, answer(with, prompt(30), options, {stop}), stop);
  }
}

// The ledger grants memory for the extra state that drafts need. The memory need includes it.
TEST_P(StateDrafts, LedgerGrantsMemoryForDraftStates) {
  Engine with(family_.path, drafting({.n_threads = 1}));
  Engine without(family_.path, plain({.n_threads = 1}));
  const uint64_t n_bytes = with.need().kv_bytes(100) - without.need().kv_bytes(100);
  EXPECT_EQ(n_bytes, with.memory().kv_state);
  SequenceOptions options = reporting(1, 50);
  options.prediction = answer(without, prompt(9), options).tokens;
  const auto sequence = with.start(prompt(9), options);
  size_t max = 0;
  while (!with.idle()) {
    with.step();
    const engine::MemoryUse use = with.memory();
    EXPECT_LE(use.kv_in_use, use.kv_granted);
    max = std::max(max, use.kv_in_use);
  }
  EXPECT_EQ(max, with.need().kv_bytes(60));
  EXPECT_EQ(with.memory().kv_in_use, 0u);
}

// A draft model also works for a model with states.
TEST_P(StateDrafts, DraftModelChangesNoAnswer) {
  const std::vector<std::string> with_states = families_with_states();
  const gguf::File own = gguf::File::open_header(family_.path);
  std::string draft;
  for (const std::string& name : family_names()) {
    if (std::ranges::find(with_states, name) != with_states.end()) continue;
    const Family other = read_family(name, BILLOW_FLOAT_FAMILIES);
    if (!tokenizer::vocabulary_difference(gguf::File::open_header(other.path), own).empty())
      continue;
    draft = other.path;
    break;
  }
  if (draft.empty())
    GTEST_SKIP() << "no family without states has the vocabulary of " << family_.name;
  EngineOptions options = drafting({.n_threads = 1});
  options.draft_model = draft;
  Engine without(family_.path, plain({.n_threads = 1}));
  Engine with(family_.path, options);
  size_t n_drafted = 0;
  for (const size_t n_prompt : {1u, 40u, 64u}) {
    const SequenceOptions wanted = reporting(static_cast<int64_t>(n_prompt), 60);
    const Whole found = answer(with, prompt(n_prompt), wanted);
    expect_same(answer(without, prompt(n_prompt), wanted), found, std::to_string(n_prompt));
    n_drafted += found.n_drafted;
  }
  EXPECT_GT(n_drafted, 20u);
}

TEST_P(StateDrafts, CannotBeDraftModel) {
  EngineOptions options = drafting({.n_threads = 1});
  options.draft_model = family_.path;
  try {
    const Engine engine(family_.path, options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("recurrent states"), std::string::npos)
        << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, StateDrafts, testing::ValuesIn(families_with_states()), test_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(StateDrafts);

}  // namespace
}  // namespace billow::families
