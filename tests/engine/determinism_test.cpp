// Tests that the same seed gives the same tokens: alone or in a batch, with one thread or two, for
// any batch size.
#include <gtest/gtest.h>

#include <chrono>

#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

SequenceOptions sampled(int64_t seed) {
  SequenceOptions options;
  options.sampling.temperature = 1.0f;
  options.sampling.top_p = 0.99f;
  options.sampling.repeat_penalty = 1.1f;
  options.sampling.seed = seed;
  options.max_new_tokens = 60;
  options.ignore_eos = true;
  return options;
}

std::vector<int32_t> answer(const Sequence& sequence) {
  return {sequence.tokens().begin() + static_cast<long>(sequence.n_prompt()),
          sequence.tokens().end()};
}

void run(Engine& engine) {
  while (!engine.idle()) engine.step();
}

TEST(Determinism, BulkPromptsWaitForOthersAndNoTokenChanges) {
  const reference::TinyModelOptions model{};
  TinyEngine alone(model, {.n_batch = 64});
  const auto expected = alone.engine.start(random_tokens(200, 300, 1), sampled(42));
  run(alone.engine);
  const auto expected_bulk = alone.engine.start(random_tokens(400, 300, 2), sampled(1));
  run(alone.engine);

  TinyEngine crowd(model, {.n_batch = 64});
  SequenceOptions options = sampled(1);
  options.is_bulk = true;
  std::vector<std::shared_ptr<const Sequence>> bulk;
  for (unsigned i = 0; i < 3; ++i) {
    options.sampling.seed = 1 + i;
    bulk.push_back(crowd.engine.start(random_tokens(400, 300, 2 + i), options));
  }
  crowd.engine.step();
  const size_t n_read = bulk[0]->n_evaluated() + bulk[1]->n_evaluated() + bulk[2]->n_evaluated();
  EXPECT_EQ(n_read, 64u);
  const auto interactive = crowd.engine.start(random_tokens(200, 300, 1), sampled(42));
  for (int i = 0; i < 3; ++i) crowd.engine.step();
  EXPECT_EQ(interactive->n_evaluated(), 192u) << "a bulk prompt takes rows";
  EXPECT_EQ(bulk[0]->n_evaluated() + bulk[1]->n_evaluated() + bulk[2]->n_evaluated(), n_read);
  run(crowd.engine);
  EXPECT_EQ(answer(*interactive), answer(*expected));
  EXPECT_EQ(answer(*bulk[0]), answer(*expected_bulk));
}

TEST(Determinism, SameTokensAloneAndBatchedWithOneOrTwoThreads) {
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    const reference::TinyModelOptions model{.architecture = architecture,
                                            .type = quant::Type::kQ4_K};
    std::vector<int32_t> expected;
    for (const int n_threads : {1, 2}) {
      for (const size_t n_batch : {512u, 33u}) {
        TinyEngine alone(model, {.n_threads = n_threads, .n_batch = n_batch});
        const auto sequence = alone.engine.start(random_tokens(100, 300, 1), sampled(42));
        run(alone.engine);
        if (expected.empty()) expected = answer(*sequence);
        EXPECT_EQ(answer(*sequence), expected);
        EXPECT_EQ(expected.size(), 60u);

        TinyEngine crowd(model, {.n_threads = n_threads, .n_batch = n_batch});
        for (unsigned i = 0; i < 4; ++i)
          crowd.engine.start(random_tokens(20 + 50 * i, 300, 2 + i), sampled(i));
        crowd.engine.step();
        const auto among = crowd.engine.start(random_tokens(100, 300, 1), sampled(42));
        for (unsigned i = 4; i < 7; ++i)
          crowd.engine.start(random_tokens(20 + 50 * i, 300, 2 + i), sampled(i));
        run(crowd.engine);
        EXPECT_EQ(answer(*among), expected)
            << architecture << " threads " << n_threads << " batch " << n_batch;
      }
    }
    TinyEngine other(model);
    const auto differs = other.engine.start(random_tokens(100, 300, 1), sampled(43));
    run(other.engine);
    EXPECT_NE(answer(*differs), expected);
  }
}

// A low max_pass_time makes the engine read prompts in small chunks while other sequences write.
TEST(Determinism, SmallPromptChunksGiveTheSameTokens) {
  const reference::TinyModelOptions model{.architecture = "llama"};
  std::vector<std::vector<int32_t>> expected;
  for (const auto max_pass_time : {std::chrono::nanoseconds(0), std::chrono::nanoseconds(1000)}) {
    TinyEngine tiny(model, {.max_pass_time = max_pass_time});
    std::vector<std::shared_ptr<const Sequence>> sequences;
    for (unsigned i = 0; i < 6; ++i) {
      sequences.push_back(tiny.engine.start(random_tokens(10 + 60 * i, 300, i), sampled(i)));
      tiny.engine.step();
    }
    run(tiny.engine);
    for (size_t i = 0; i < sequences.size(); ++i) {
      if (max_pass_time.count() == 0) expected.push_back(answer(*sequences[i]));
      EXPECT_EQ(answer(*sequences[i]), expected[i]);
    }
  }
}

// A sequence gets blocks that an ended one has used. The old contents must not change its answer.
TEST(Determinism, ReusedMemoryGivesTheSameTokens) {
  TinyEngine tiny({.architecture = "gemma3"});
  std::vector<int32_t> expected;
  for (int round = 0; round < 3; ++round) {
    const auto sequence = tiny.engine.start(random_tokens(150, 300, 5), sampled(7));
    run(tiny.engine);
    if (expected.empty()) expected = answer(*sequence);
    EXPECT_EQ(answer(*sequence), expected);
    tiny.engine.start(random_tokens(200, 300, 6), sampled(8));
    run(tiny.engine);
  }
  EXPECT_EQ(tiny.engine.kv_bytes(), 0u);
}

}  // namespace
}  // namespace billow::engine
