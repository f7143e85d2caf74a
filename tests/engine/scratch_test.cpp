// Compares the scratch bound, which is known before the first pass, with the scratch of passes.
#include "arch/scratch.h"

#include <gtest/gtest.h>

#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

size_t bound_of(const Engine& engine, size_t n_rows, size_t n_logit_rows) {
  return arch::max_scratch_bytes(engine.loaded(), engine.kernels(),
                                 {.n_rows = n_rows,
                                  .n_logit_rows = n_logit_rows,
                                  .n_positions = engine.max_context(),
                                  .n_threads = static_cast<size_t>(engine.n_threads())});
}

// Models that are so wide that rounding to whole pages cannot hide a forgotten buffer.
std::vector<reference::TinyModelOptions> wide_models() {
  std::vector<reference::TinyModelOptions> models;
  for (const char* architecture : {"llama", "qwen2", "gemma3"}) {
    models.push_back({.architecture = architecture,
                      .type = quant::Type::kQ4_K,
                      .output_type = quant::Type::kF16,
                      .n_layers = 2,
                      .n_ff = 1024});
    models.push_back({.architecture = architecture,  // attention is the largest part
                      .n_layers = 2,
                      .n_ff = 64,
                      .n_head = 16,
                      .n_head_kv = 2,
                      .head_dim = 128});
  }
  return models;
}

void expect_bound(const reference::TinyModelOptions& model, const EngineOptions& options) {
  TinyEngine tiny(model, options);
  const size_t bound = bound_of(tiny.engine, 512, 8);
  tiny.engine.start(random_tokens(512, 300, 1), greedy(2));
  tiny.engine.step();
  for (unsigned i = 0; i < 7; ++i) tiny.engine.start(random_tokens(5, 300, i), greedy(2));
  while (!tiny.engine.idle()) tiny.engine.step();
  EXPECT_LE(tiny.engine.memory().scratch, bound)
      << model.architecture << ", " << tiny.engine.kernels().name;
  EXPECT_GE(tiny.engine.memory().scratch, bound / 2)
      << model.architecture << ", " << tiny.engine.kernels().name;
}

TEST(Scratch, NoPassExceedsTheBound) {
  for (const reference::TinyModelOptions& model : wide_models()) {
    for (const int n_threads : {1, 3}) {
      expect_bound(model, {.n_threads = n_threads});
      expect_bound(model, {.n_threads = n_threads, .pack_weights = false});
    }
  }
  for (const kernels::KernelTable* table : usable_tables())
    expect_bound(wide_models()[0], {.n_threads = 2, .kernels = table});
}

// Late in a long context, partial results of attention are the largest part of scratch. Their
// number depends on the mix of rows and sequences. Sequences with gaps need some for each thread.
TEST(Scratch, BoundHoldsLateInALongContext) {
  reference::TinyModelOptions model = wide_models()[1];
  model.n_context = 1024;
  TinyEngine tiny(model, {.n_threads = 4, .n_batch = 64});
  const size_t bound = bound_of(tiny.engine, 64, 8);
  std::mt19937 random(7);
  for (unsigned i = 0; i < 4; ++i)
    tiny.engine.start(random_tokens(900 + random() % 100, 300, i), greedy(3));
  SequenceOptions shifting = greedy(300);
  shifting.context = {.max_context = 200, .policy = context::OverflowPolicy::kShift};
  for (unsigned i = 0; i < 2; ++i) tiny.engine.start(random_tokens(90, 300, i), shifting);
  while (!tiny.engine.idle()) {
    tiny.engine.step(1 + random() % 64);
    ASSERT_LE(tiny.engine.memory().scratch, bound);
  }
  EXPECT_GE(tiny.engine.memory().scratch, bound / 3);
}

TEST(Scratch, BoundGrowsWithEachLimit) {
  TinyEngine tiny({});
  const auto bound = [&](const arch::PassLimits& limits) {
    return arch::max_scratch_bytes(tiny.engine.loaded(), tiny.engine.kernels(), limits);
  };
  const arch::PassLimits limits = {
      .n_rows = 2048, .n_logit_rows = 100, .n_positions = 4096, .n_threads = 4};
  arch::PassLimits more_rows = limits;
  more_rows.n_rows *= 2;
  arch::PassLimits more_logits = limits;
  more_logits.n_logit_rows *= 100;
  arch::PassLimits farther = limits;
  farther.n_positions *= 100;
  for (const arch::PassLimits& more : {more_rows, more_logits, farther})
    EXPECT_GT(bound(more), bound(limits));
}

}  // namespace
}  // namespace billow::engine
