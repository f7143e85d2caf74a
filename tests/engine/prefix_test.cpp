// Tests prompts that share a prefix with earlier ones: evaluation starts after the prefix, and the
// tokens are the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

constexpr const char* kArchitectures[] = {"llama", "qwen2", "gemma3"};
constexpr uint64_t kPlenty = uint64_t{1} << 30;

reference::TinyModelOptions tiny(const char* architecture) {
  return {.architecture = architecture, .n_context = 1024, .window = 100};
}

std::vector<int32_t> joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::shared_ptr<const Sequence> run(Engine& engine, const std::vector<int32_t>& prompt,
                                    const SequenceOptions& options) {
  const auto sequence = engine.start(prompt, options);
  while (!sequence->finished()) engine.step();
  return sequence;
}

std::vector<int32_t> all_tokens(const Sequence& sequence) {
  return {sequence.tokens().begin(), sequence.tokens().end()};
}

TEST(Prefix, SecondPromptStartsAfterTheSharedPrefix) {
  const std::vector<int32_t> beginning = random_tokens(300, 300, 1);
  const std::vector<int32_t> first = joined(beginning, random_tokens(30, 300, 2));
  const std::vector<int32_t> second = joined(beginning, random_tokens(40, 300, 3));
  for (const char* architecture : kArchitectures) {
    TinyEngine plain(tiny(architecture));
    TinyEngine sharing(tiny(architecture), {.n_batch = 100, .max_cached = kPlenty});
    const auto expected = run(plain.engine, second, greedy(20));
    EXPECT_EQ(run(sharing.engine, first, greedy(20))->n_shared(), 0u);
    EXPECT_GT(sharing.engine.memory().kv_cached, 0u);
    const auto got = run(sharing.engine, second, greedy(20));
    EXPECT_EQ(got->n_shared(), 256u) << architecture;
    EXPECT_EQ(all_tokens(*got), all_tokens(*expected)) << architecture;
    // The same prompt again: only its last tokens are evaluated.
    const auto again = run(sharing.engine, second, greedy(20));
    EXPECT_EQ(again->n_shared(), 320u) << architecture;
    EXPECT_EQ(all_tokens(*again), all_tokens(*expected)) << architecture;
    EXPECT_EQ(plain.engine.memory().kv_in_use, 0u);
  }
}

TEST(Prefix, PromptsOfDifferentSaltsShareNothing) {
  const std::vector<int32_t> prompt = random_tokens(300, 300, 1);
  for (const char* architecture : kArchitectures) {
    TinyEngine tiny_engine(tiny(architecture), {.n_batch = 100, .max_cached = kPlenty});
    SequenceOptions salted = greedy(20);
    salted.salt = 7;
    const auto expected = run(tiny_engine.engine, prompt, greedy(20));
    const auto other = run(tiny_engine.engine, prompt, salted);
    EXPECT_EQ(other->n_shared(), 0u) << architecture;
    EXPECT_EQ(all_tokens(*other), all_tokens(*expected)) << architecture;
    EXPECT_EQ(run(tiny_engine.engine, prompt, salted)->n_shared(), 256u) << architecture;
    EXPECT_EQ(run(tiny_engine.engine, prompt, greedy(20))->n_shared(), 256u) << architecture;
    EXPECT_EQ(tiny_engine.engine.forget_text(prompt, {}, 8).n_tokens, 0u);
    EXPECT_EQ(tiny_engine.engine.forget_text(prompt, {}, 7).n_tokens, 256u);
  }
}

// In the next turn of a conversation, the model's own answer is cached, too.
TEST(Prefix, AnswersAreCachedWithTheirPrompt) {
  for (const char* architecture : kArchitectures) {
    TinyEngine sharing(tiny(architecture), {.max_cached = kPlenty});
    const auto first = run(sharing.engine, random_tokens(100, 300, 1), greedy(100));
    const std::vector<int32_t> second = joined(all_tokens(*first), random_tokens(10, 300, 2));
    TinyEngine plain(tiny(architecture));
    const auto expected = run(plain.engine, second, greedy(10));
    const auto got = run(sharing.engine, second, greedy(10));
    EXPECT_EQ(got->n_shared(), 192u) << architecture;
    EXPECT_EQ(all_tokens(*got), all_tokens(*expected)) << architecture;
  }
}

TEST(Prefix, RunningSequencesShareBlocks) {
  const std::vector<int32_t> beginning = random_tokens(200, 300, 1);
  for (const char* architecture : kArchitectures) {
    TinyEngine plain(tiny(architecture));
    TinyEngine sharing(tiny(architecture), {.max_cached = kPlenty});
    const auto a = sharing.engine.start(joined(beginning, {1, 2, 3}), greedy(60));
    sharing.engine.step();
    const size_t alone = sharing.engine.kv_bytes();
    const auto b = sharing.engine.start(joined(beginning, {4, 5, 6}), greedy(60));
    sharing.engine.step();
    EXPECT_EQ(b->n_shared(), 192u);
    EXPECT_LT(sharing.engine.kv_bytes(), alone + alone / 2);
    while (!sharing.engine.idle()) sharing.engine.step();
    EXPECT_EQ(all_tokens(*a),
              all_tokens(*run(plain.engine, joined(beginning, {1, 2, 3}), greedy(60))));
    EXPECT_EQ(all_tokens(*b),
              all_tokens(*run(plain.engine, joined(beginning, {4, 5, 6}), greedy(60))));
  }
}

// Cached blocks have a limit. A sequence never waits for their memory.
TEST(Prefix, SequencesEvictCachedMemory) {
  size_t fixed = 0;
  size_t rung = 0;
  {
    TinyEngine probe(tiny("llama"));
    const auto sequence = probe.engine.start(random_tokens(100, 300, 1), greedy(2));
    probe.engine.step();
    const MemoryUse use = probe.engine.memory();
    fixed = use.weights + use.scratch_granted;
    rung = use.kv_granted;
  }
  TinyEngine model(tiny("llama"),
                   {.memory_budget = fixed + rung + rung / 2, .max_cached = kPlenty});
  for (unsigned i = 0; i < 6; ++i) {
    const auto sequence = model.engine.start(random_tokens(400, 300, i), greedy(5));
    while (!sequence->finished()) {
      model.engine.step();
      ASSERT_FALSE(sequence->waiting());
      const MemoryUse use = model.engine.memory();
      ASSERT_LE(use.weights + use.kv_granted + use.kv_cached + use.scratch_granted, use.budget);
    }
    EXPECT_EQ(sequence->finish_reason(), FinishReason::kLength);
    EXPECT_GT(model.engine.memory().kv_cached, 0u);
  }
  const size_t cached = model.engine.memory().kv_cached;
  EXPECT_GT(model.engine.memory().kv_evicted, 0u);
  TinyEngine bounded(tiny("llama"), {.max_cached = cached / 2});
  for (unsigned i = 0; i < 3; ++i) {
    (void)run(bounded.engine, random_tokens(400, 300, i), greedy(5));
    EXPECT_LE(bounded.engine.memory().kv_cached, cached / 2);
    EXPECT_EQ(bounded.engine.memory().kv_cached, bounded.engine.memory().kv_in_use);
  }
  EXPECT_GT(bounded.engine.memory().kv_evicted, 0u);
}

// The address space has room for running sequences only, so they also evict cached blocks there.
TEST(Prefix, SequencesEvictCachedBlocksIfAddressSpaceIsShort) {
  for (const char* architecture : kArchitectures) {
    TinyEngine plain(tiny(architecture));
    TinyEngine model(tiny(architecture),
                     {.max_context = 256, .max_sequences = 1, .max_cached = kPlenty});
    for (unsigned i = 0; i < 5; ++i) {
      const std::vector<int32_t> prompt = random_tokens(200, 300, i);
      EXPECT_EQ(all_tokens(*run(model.engine, prompt, greedy(50))),
                all_tokens(*run(plain.engine, prompt, greedy(50))));
    }
    EXPECT_EQ(logits_of(model.engine, random_tokens(250, 300, 9), 249),
              logits_of(plain.engine, random_tokens(250, 300, 9), 249));
  }
}

// CP-9: after a compaction, the positions no longer match the tokens, so no further blocks are
// cached.
TEST(Prefix, CP_9_CompactedSequenceSharesOnlyEarlierBlocks) {
  for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kShift}) {
    for (const char* architecture : kArchitectures) {
      TinyEngine sharing(tiny(architecture), {.max_cached = kPlenty});
      SequenceOptions options = greedy(400);
      options.context = {.max_context = 256, .policy = policy, .compaction = {4, 16}};
      const auto compacted = run(sharing.engine, random_tokens(100, 300, 1), options);
      EXPECT_GT(compacted->n_dropped(), 0u);
      const std::vector<int32_t> history = joined(all_tokens(*compacted), {7});
      std::vector<int32_t> kept;
      for (size_t i = 0; i < compacted->n_evaluated(); ++i) kept.push_back(compacted->token_at(i));
      TinyEngine plain(tiny(architecture));
      for (const std::vector<int32_t>& prompt : {history, kept}) {
        const auto expected = run(plain.engine, prompt, greedy(10));
        const auto got = run(sharing.engine, prompt, greedy(10));
        EXPECT_GE(got->n_shared(), 64u);
        EXPECT_LE(got->n_shared(), 256u);
        EXPECT_EQ(all_tokens(*got), all_tokens(*expected)) << architecture;
      }
    }
  }
}

// P-16: sequences with common prefixes run in random order, and some are cancelled.
TEST(Prefix, P_16_RandomSequencesHaveTheSameTokensAsAlone) {
  std::mt19937 random(16);
  size_t n_shared = 0;
  for (int round = 0; round < 12; ++round) {
    const char* architecture = kArchitectures[round % 3];
    TinyEngine plain(tiny(architecture));
    TinyEngine sharing(tiny(architecture), {.n_batch = 1 + random() % 200, .max_cached = kPlenty});
    std::vector<std::shared_ptr<const Sequence>> sequences;
    std::vector<std::vector<int32_t>> known = {random_tokens(150, 300, 1)};
    for (int step = 0; step < 120 || !sharing.engine.idle(); ++step) {
      if (step < 120 && random() % 10 == 0) {
        const std::vector<int32_t>& base = known[random() % known.size()];
        const size_t n = 1 + random() % base.size();
        const std::vector<int32_t> prompt =
            joined({base.begin(), base.begin() + static_cast<long>(n)},
                   random_tokens(1 + random() % 90, 300, static_cast<unsigned>(random())));
        if (prompt.size() < 700) {
          try {
            sequences.push_back(
                sharing.engine.start(prompt, greedy(static_cast<int64_t>(1 + random() % 60))));
            known.push_back(prompt);
          } catch (const Error&) {  // the max number of sequences runs
          }
        }
      }
      if (!sequences.empty() && random() % 50 == 0)
        sharing.engine.finish(*sequences[random() % sequences.size()], FinishReason::kStop);
      sharing.engine.step(1 + random() % 200);
      const MemoryUse use = sharing.engine.memory();
      ASSERT_LE(use.kv_in_use, use.kv_granted + use.kv_cached);
    }
    for (const auto& sequence : sequences) {
      n_shared += sequence->n_shared();
      const std::vector<int32_t> prompt(
          sequence->tokens().begin(),
          sequence->tokens().begin() + static_cast<long>(sequence->n_prompt()));
      if (sequence->n_generated() == 0) continue;
      EXPECT_EQ(all_tokens(*run(plain.engine, prompt,
                                greedy(static_cast<int64_t>(sequence->n_generated())))),
                all_tokens(*sequence))
          << architecture << ", round " << round;
    }
    EXPECT_EQ(sharing.engine.memory().kv_in_use, sharing.engine.memory().kv_cached);
  }
  EXPECT_GT(n_shared, 0u);
}

}  // namespace
}  // namespace billow::engine
