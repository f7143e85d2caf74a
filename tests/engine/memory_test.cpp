// Tests sequences under a memory budget: which sequence waits, is compacted or ends, and that the
// other sequences do not change.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

using context::MemoryClass;
using context::OverflowPolicy;

SequenceOptions greedy(size_t n_tokens, std::vector<size_t> sizes,
                       OverflowPolicy policy = OverflowPolicy::kStop) {
  SequenceOptions options = engine::greedy(static_cast<int64_t>(n_tokens));
  options.context.sizes = std::move(sizes);
  options.context.policy = policy;
  options.context.compaction = {.reserve_batches = 2, .batch = 8};
  return options;
}

const reference::TinyModelOptions kModel = {.architecture = "llama", .n_context = 1024};

// Memory that the engine needs: `fixed` without KV, after a run on a rung of 512; KV of each rung.
struct Needs {
  Needs() {
    TinyEngine tiny(kModel, {.n_batch = 64, .max_draft = 0});
    const auto granted = [&](size_t rung) {
      const auto sequence = tiny.engine.start(random_tokens(8, 300, 1), greedy(2, {rung}));
      tiny.engine.step();
      const MemoryUse use = tiny.engine.memory();
      tiny.engine.finish(*sequence, FinishReason::kStop);
      fixed = use.weights + use.scratch_granted;
      return use.kv_granted;
    };
    rung64 = granted(64);
    fixed64 = fixed;
    rung128 = granted(128);
    (void)granted(512);
  }
  size_t fixed = 0;
  size_t fixed64 = 0;  // the same on a rung of 64
  size_t rung64 = 0;
  size_t rung128 = 0;
};

const Needs& needs() {
  static const Needs value;
  return value;
}

struct Budgeted : TinyEngine {
  explicit Budgeted(size_t for_kv, size_t fixed = needs().fixed)
      : TinyEngine(kModel, {.n_batch = 64, .memory_budget = fixed + for_kv, .max_draft = 0}) {}
};

std::vector<int32_t> alone(const std::vector<int32_t>& prompt, const SequenceOptions& options) {
  TinyEngine tiny(kModel, {.n_batch = 64, .max_draft = 0});
  const auto sequence = tiny.engine.start(prompt, options);
  while (!sequence->finished()) tiny.engine.step();
  return {sequence->tokens().begin(), sequence->tokens().end()};
}

std::vector<int32_t> all_tokens(const Sequence& sequence) {
  return {sequence.tokens().begin(), sequence.tokens().end()};
}

void expect_nothing_held(Engine& engine) {
  const MemoryUse use = engine.memory();
  EXPECT_EQ(use.kv_granted, 0u);
  EXPECT_EQ(use.kv_in_use, 0u);
}

TEST(Budget, RefusesImmediatelyWhatCannotFit) {
  try {
    TinyEngine tiny(kModel, {.memory_budget = 1000});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kOutOfMemory);
    EXPECT_NE(std::string(error.what()).find("1000 B"), std::string::npos) << error.what();
  }
  Budgeted model(needs().rung64, needs().fixed64);
  EXPECT_THROW(model.engine.start(random_tokens(8, 300, 1), greedy(2, {128})), Error);
  EXPECT_THROW(model.engine.start(random_tokens(70, 300, 1), greedy(2, {64, 128})), Error);
  const auto sequence = model.engine.start(random_tokens(8, 300, 1), greedy(2, {64}));
  while (!model.engine.idle()) model.engine.step();
  EXPECT_EQ(sequence->n_generated(), 2u);
  EXPECT_THROW(logits_of(model.engine, random_tokens(70, 300, 1)), Error);
  expect_nothing_held(model.engine);
}

TEST(Budget, FourthSequenceWaitsAndNoTokensChange) {
  Budgeted model(3 * needs().rung64);
  std::vector<std::shared_ptr<const Sequence>> sequences;
  for (unsigned i = 0; i < 4; ++i)
    sequences.push_back(model.engine.start(random_tokens(10 + i, 300, i), greedy(20 + i, {64})));
  size_t n_waited = 0;
  while (!model.engine.idle()) {
    model.engine.step();
    EXPECT_LE(model.engine.memory().kv_granted, 3 * needs().rung64);
    for (unsigned i = 0; i < 3; ++i) EXPECT_FALSE(sequences[i]->waiting());
    n_waited += sequences[3]->waiting() ? 1 : 0;
  }
  EXPECT_GE(n_waited, 20u);
  for (unsigned i = 0; i < 4; ++i)
    EXPECT_EQ(all_tokens(*sequences[i]),
              alone(random_tokens(10 + i, 300, i), greedy(20 + i, {64})));
  expect_nothing_held(model.engine);
}

TEST(Budget, FI_4_OneSequenceGrowsAndTheOtherWaits) {
  Budgeted model(needs().rung128 + needs().rung64);
  const SequenceOptions options = greedy(90, {64, 128});
  const auto a = model.engine.start(random_tokens(20, 300, 1), options);
  const auto b = model.engine.start(random_tokens(18, 300, 2), options);
  bool waited = false;
  while (!model.engine.idle()) {
    model.engine.step();
    EXPECT_FALSE(a->waiting());
    waited = waited || b->waiting();
  }
  EXPECT_TRUE(waited);
  EXPECT_EQ(all_tokens(*a), alone(random_tokens(20, 300, 1), options));
  EXPECT_EQ(all_tokens(*b), alone(random_tokens(18, 300, 2), options));
  expect_nothing_held(model.engine);
}

TEST(Budget, FI_4_OneSequenceGrowsAndTheOtherIsCompacted) {
  for (const OverflowPolicy policy : {OverflowPolicy::kRefill, OverflowPolicy::kShift}) {
    // Enough to start both and to grow one. A rung with a gap needs two more blocks.
    Budgeted model(3 * needs().rung128);
    const SequenceOptions plain = greedy(100, {64, 128});
    const SequenceOptions elastic = greedy(100, {64, 512}, policy);
    const auto a = model.engine.start(random_tokens(20, 300, 1), plain);
    const auto b = model.engine.start(random_tokens(18, 300, 2), elastic);
    while (!model.engine.idle()) {
      model.engine.step();
      EXPECT_FALSE(a->waiting());
      EXPECT_FALSE(b->waiting());
    }
    EXPECT_EQ(all_tokens(*a), alone(random_tokens(20, 300, 1), plain));
    EXPECT_EQ(b->n_generated(), 100u);
    ASSERT_GE(b->events().size(), 1u);
    const context::ContextEvent& event = b->events()[0].event;
    EXPECT_EQ(event.step, context::Step::kCompact);
    EXPECT_EQ(event.from, 64u);
    EXPECT_EQ(event.compaction, (context::Compaction{18, 32, 32}));
    expect_nothing_held(model.engine);
  }
}

TEST(Budget, IfAllWaitTheLastEndsWithAnErrorAndTheOthersContinue) {
  Budgeted model(2 * needs().rung64 + (needs().rung128 - needs().rung64) / 2);
  const SequenceOptions options = greedy(90, {64, 128});
  const auto a = model.engine.start(random_tokens(20, 300, 1), options);
  const auto b = model.engine.start(random_tokens(20, 300, 2), options);
  while (!model.engine.idle()) model.engine.step();
  EXPECT_EQ(all_tokens(*a), alone(random_tokens(20, 300, 1), options));
  EXPECT_EQ(a->error(), "");
  EXPECT_EQ(b->finish_reason(), FinishReason::kNoMemory);
  EXPECT_STREQ(finish_reason_name(b->finish_reason()), "length");
  EXPECT_NE(b->error().find("context of 128 tokens"), std::string::npos) << b->error();
  EXPECT_EQ(b->n_generated(), 45u);  // the text so far is kept
  const std::vector<int32_t> whole = alone(random_tokens(20, 300, 2), options);
  EXPECT_TRUE(std::equal(b->tokens().begin(), b->tokens().end(), whole.begin()));
  expect_nothing_held(model.engine);
}

// A wider context is tried at each overflow. A refusal must not cost other conversations their KV,
// nor keep the scratch memory of the wider context.
TEST(Budget, ARefusedRungTakesNothing) {
  TinyEngine tiny(kModel, {.n_batch = 64,
                           .memory_budget = needs().fixed + needs().rung128 + needs().rung64,
                           .max_cached = UINT64_MAX});
  Engine& engine = tiny.engine;
  (void)engine.start(random_tokens(70, 300, 1), greedy(20, {128}));
  while (!engine.idle()) engine.step();
  const uint64_t cached = engine.memory().kv_cached;
  ASSERT_GT(cached, 0u);
  const SequenceOptions options = greedy(100, {64, 512}, OverflowPolicy::kRefill);
  const auto sequence = engine.start(random_tokens(18, 300, 2), options);
  engine.step();
  const uint64_t scratch = engine.memory().scratch_granted;
  while (sequence->events().empty()) engine.step();
  EXPECT_EQ(sequence->events()[0].event.step, context::Step::kCompact);
  EXPECT_EQ(engine.memory().scratch_granted, scratch);
  EXPECT_EQ(engine.memory().kv_evicted, 0u);
  while (!engine.idle()) engine.step();
  EXPECT_EQ(sequence->n_generated(), 100u);
  EXPECT_EQ(engine.memory().kv_evicted, 0u);
}

TEST(Budget, DeferredTrimFreesMemoryOfEndedSequences) {
  for (const bool defers : {false, true}) {
    TinyEngine tiny(kModel, {.n_batch = 512, .defers_trim = defers});
    const auto done = tiny.engine.start(random_tokens(100, 300, 1), greedy(20, {128}));
    while (!tiny.engine.idle()) tiny.engine.step();
    EXPECT_EQ(tiny.engine.memory().kv_in_use, 0u);
    EXPECT_EQ(tiny.engine.memory().kv_backed > 0, defers);
    tiny.engine.trim();
    EXPECT_EQ(tiny.engine.memory().kv_backed, 0u);
  }
}

// Two models share one budget. For one to grow, the other gets a smaller budget. The smaller budget
// evicts cached KV of finished sequences and takes nothing from running ones.
TEST(Budget, NR_4_SmallerBudgetTakesOnlyIdleMemory) {
  const SequenceOptions long_answer = greedy(90, {64, 128});
  const SequenceOptions short_answer = greedy(20, {64});
  Budgeted first(4 * needs().rung128);
  Budgeted second(needs().rung64);
  TinyEngine parking(kModel, {.n_batch = 64,
                              .memory_budget = needs().fixed + 4 * needs().rung128,
                              .max_cached = UINT64_MAX});
  const auto done = parking.engine.start(random_tokens(100, 300, 1), greedy(20, {128}));
  while (!parking.engine.idle()) parking.engine.step();
  const size_t cached = parking.engine.memory().kv_cached;
  EXPECT_GT(cached, 0u);
  EXPECT_EQ(parking.engine.memory().kv_evicted, 0u);
  // An idle engine frees all of its cached KV.
  const uint64_t total = needs().fixed + 4 * needs().rung128;
  const uint64_t kept = parking.engine.set_memory_budget(needs().fixed);
  EXPECT_LE(kept, needs().fixed);
  EXPECT_EQ(parking.engine.memory().kv_cached, 0u);
  EXPECT_EQ(parking.engine.memory().kv_evicted, cached);
  EXPECT_EQ(parking.engine.memory().kv_backed, 0u);
  // The other engine then has room to grow.
  second.engine.set_memory_budget(total);
  const auto grown = second.engine.start(random_tokens(20, 300, 2), long_answer);
  while (!second.engine.idle()) second.engine.step();
  EXPECT_EQ(all_tokens(*grown), alone(random_tokens(20, 300, 2), long_answer));
  // A busy engine keeps the memory of its running sequences until they end, and grants no more.
  const auto running = first.engine.start(random_tokens(20, 300, 3), short_answer);
  first.engine.step();
  EXPECT_GE(first.engine.set_memory_budget(1), needs().rung64);
  EXPECT_EQ(first.engine.memory().kv_granted, needs().rung64);
  EXPECT_THROW(first.engine.start(random_tokens(20, 300, 4), short_answer), Error);
  while (!first.engine.idle()) first.engine.step();
  EXPECT_EQ(all_tokens(*running), alone(random_tokens(20, 300, 3), short_answer));
  expect_nothing_held(first.engine);
}

// FI-1: all memory is taken during one step, for each step in turn.
TEST(Budget, FI_1_RefusedMemoryAtAnyStepLosesNothing) {
  const std::vector<SequenceOptions> options = {greedy(60, {32, 64, 128}), greedy(50, {64, 128})};
  std::vector<std::vector<int32_t>> whole;
  for (unsigned i = 0; i < 2; ++i) whole.push_back(alone(random_tokens(20, 300, i), options[i]));
  for (size_t refused = 0; refused < 62; refused += refused < 3 ? 1 : 4) {
    Budgeted model(4 * needs().rung128);
    std::vector<std::shared_ptr<const Sequence>> sequences;
    for (unsigned i = 0; i < 2; ++i)
      sequences.push_back(model.engine.start(random_tokens(20, 300, i), options[i]));
    context::Ledger& ledger = model.engine.ledger();
    for (size_t step = 0; !model.engine.idle(); ++step) {
      const uint64_t left = ledger.account().budget - ledger.account().total;
      const uint64_t taken = step == refused ? left : 0;
      ASSERT_TRUE(ledger.grant(MemoryClass::kScratch, taken));
      model.engine.step();
      ledger.give_back(MemoryClass::kScratch, taken);
    }
    for (unsigned i = 0; i < 2; ++i) {
      const Sequence& sequence = *sequences[i];
      const bool ended = sequence.finish_reason() == FinishReason::kNoMemory;
      EXPECT_EQ(ended, !sequence.error().empty());
      ASSERT_LE(sequence.tokens().size(), whole[i].size());
      EXPECT_TRUE(std::equal(sequence.tokens().begin(), sequence.tokens().end(), whole[i].begin()))
          << "refused at " << refused;
      EXPECT_TRUE(ended || sequence.tokens().size() == whole[i].size());
    }
    expect_nothing_held(model.engine);
  }
}

// Uses random budgets, policies, lengths and cancellations. Every step stays within the budget, and
// nothing leaks. A sequence that was neither compacted nor cut short has the same tokens as alone.
TEST(Budget, P_13_RandomSequencesStayWithinBudgetWithTheSameTokens) {
  std::mt19937 random(13);
  for (int round = 0; round < 18; ++round) {
    Budgeted model(needs().rung128 + random() % (4 * needs().rung128));
    const MemoryUse before = model.engine.memory();
    struct Run {
      std::shared_ptr<const Sequence> sequence;
      std::vector<int32_t> prompt;
      SequenceOptions options;
    };
    std::vector<Run> runs;
    for (int step = 0; step < 150 || !model.engine.idle(); ++step) {
      if (step < 150 && random() % 12 == 0) {
        constexpr OverflowPolicy kPolicies[] = {OverflowPolicy::kStop, OverflowPolicy::kRefill,
                                                OverflowPolicy::kShift};
        Run run;
        run.prompt = random_tokens(1 + random() % 60, 300, static_cast<unsigned>(random()));
        run.options = greedy(1 + random() % 80, {32, 64, 128, 256}, kPolicies[random() % 3]);
        try {
          run.sequence = model.engine.start(run.prompt, run.options);
          runs.push_back(run);
        } catch (const Error& error) {
          EXPECT_TRUE(error.code() == ErrorCode::kTooLarge ||
                      error.code() == ErrorCode::kOutOfMemory);
        }
      }
      if (!runs.empty() && random() % 40 == 0)
        model.engine.finish(*runs[random() % runs.size()].sequence, FinishReason::kStop);
      model.engine.step(1 + random() % 64);
      const MemoryUse use = model.engine.memory();
      ASSERT_LE(use.kv_in_use, use.kv_granted);
      ASSERT_LE(use.weights + use.kv_granted + use.scratch_granted, use.budget);
      ASSERT_LE(use.scratch, use.scratch_granted);
    }
    expect_nothing_held(model.engine);
    EXPECT_EQ(model.engine.memory().weights, before.weights);
    if (round % 6 != 0) continue;  // saves time
    for (const Run& run : runs) {
      const bool compacted = std::ranges::any_of(run.sequence->events(), [](const auto& event) {
        return event.event.step == context::Step::kCompact;
      });
      if (compacted) continue;
      const std::vector<int32_t> whole = alone(run.prompt, run.options);
      const std::span<const int32_t> tokens = run.sequence->tokens();
      ASSERT_LE(tokens.size(), whole.size());
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end(), whole.begin())) << "round " << round;
    }
  }
}

// The engine reserves address space for the max context of all sequences, but commits only granted
// memory. A model can therefore be loaded on a system without memory overcommit.
TEST(Budget, CommitsOnlyGrantedMemory) {
  const auto promised = [] {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
      if (line.starts_with("VmData:")) return std::stoul(line.substr(7)) * 1024;
    return 0ul;
  };
  reference::TinyModelOptions model = kModel;
  model.n_context = 131072;
  model.type = quant::Type::kQ8_0;
  constexpr size_t kElsewhere = size_t{128} << 20;  // heap and stacks
  const size_t before = promised();
  ASSERT_GT(before, 0u);
  TinyEngine tiny(model, {.n_threads = 1});
  ASSERT_GT(tiny.engine.memory().kv_reserved, size_t{1} << 30);
  EXPECT_LT(promised(), before + tiny.engine.memory().held() + kElsewhere);
  tiny.engine.start(random_tokens(600, 300, 1), engine::greedy(500));
  while (!tiny.engine.idle()) {
    tiny.engine.step();
    ASSERT_LT(promised(), before + tiny.engine.memory().held() + kElsewhere);
  }
}

}  // namespace
}  // namespace billow::engine
