// Tests how a sequence's context grows and is compacted: events equal the planner's, and growth
// changes no token.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/generation.h"
#include "engine/tiny_engine.h"

namespace billow::engine {
namespace {

constexpr const char* kArchitectures[] = {"llama", "qwen2", "gemma3"};

SequenceOptions greedy(size_t n_tokens, std::vector<size_t> sizes,
                       context::OverflowPolicy policy = context::OverflowPolicy::kStop) {
  SequenceOptions options = engine::greedy(static_cast<int64_t>(n_tokens));
  options.context.sizes = std::move(sizes);
  options.context.policy = policy;
  options.context.compaction = {.reserve_batches = 4, .batch = 8};
  return options;
}

std::vector<int32_t> answer(const Sequence& sequence) {
  return {sequence.tokens().begin() + static_cast<long>(sequence.n_prompt()),
          sequence.tokens().end()};
}

std::shared_ptr<const Sequence> run(Engine& engine, std::vector<int32_t> prompt,
                                    const SequenceOptions& options) {
  const auto sequence = engine.start(std::move(prompt), options);
  while (!sequence->finished()) engine.step();
  return sequence;
}

reference::TinyModelOptions tiny(const char* architecture) {
  return {.architecture = architecture, .n_context = 1024};
}

TEST(Elastic, GR_11_GrowthChangesNoToken) {
  for (const char* architecture : kArchitectures) {
    TinyEngine model(tiny(architecture));
    const std::vector<int32_t> prompt = random_tokens(30, 300, 1);
    const auto fixed = run(model.engine, prompt, greedy(200, {256}));
    const auto grown = run(model.engine, prompt, greedy(200, {32, 64, 128, 256}));
    const auto steep = run(model.engine, prompt, greedy(200, {40, 256}));
    EXPECT_EQ(answer(*grown), answer(*fixed)) << architecture;
    EXPECT_EQ(answer(*steep), answer(*fixed)) << architecture;
    EXPECT_EQ(fixed->events().size(), 0u);
    EXPECT_EQ(grown->events().size(), 3u);
    EXPECT_EQ(steep->events().size(), 1u);
  }
}

// Rope scaling must not depend on the size of the allocated context.
TEST(Elastic, GR_13_GrowthChangesNoTokenWithScaledRope) {
  for (const auto scaling :
       {reference::TinyRopeScaling::kLinear, reference::TinyRopeScaling::kLlama3,
        reference::TinyRopeScaling::kYarn, reference::TinyRopeScaling::kLongRope}) {
    reference::TinyModelOptions options = tiny("llama");
    options.rope_scaling = scaling;
    TinyEngine model(options);
    const std::vector<int32_t> prompt = random_tokens(30, 300, 1);
    const auto fixed = run(model.engine, prompt, greedy(150, {256}));
    const auto grown = run(model.engine, prompt, greedy(150, {32, 64, 128, 256}));
    EXPECT_EQ(answer(*grown), answer(*fixed));
  }
}

// Attention never reads memory beyond the positions that a sequence holds, so old contents there
// change no token.
TEST(Elastic, GR_12_UsedMemoryChangesNoToken) {
  for (const char* architecture : kArchitectures) {
    TinyEngine fresh(tiny(architecture));
    TinyEngine used(tiny(architecture));
    for (unsigned i = 0; i < 3; ++i)
      (void)run(used.engine, random_tokens(300, 300, 90 + i), greedy(50, {512}));
    const std::vector<int32_t> prompt = random_tokens(30, 300, 1);
    const SequenceOptions options = greedy(300, {32, 64, 128}, context::OverflowPolicy::kRefill);
    EXPECT_EQ(answer(*run(used.engine, prompt, options)),
              answer(*run(fresh.engine, prompt, options)))
        << architecture;
  }
}

// A rung can be any number of positions, not only whole blocks, with either KV type.
TEST(Elastic, GR_14_RungsOfAnySizeWithEightBitKv) {
  TinyEngine model(tiny("gemma3"), {.kv_type = kernels::KvType::kQ8_0});
  const std::vector<int32_t> prompt = random_tokens(30, 300, 1);
  const auto fixed = run(model.engine, prompt, greedy(200, {256}));
  EXPECT_EQ(answer(*run(model.engine, prompt, greedy(200, {33, 65, 100, 256}))), answer(*fixed));
}

// Growth allocates blocks one by one and moves no data.
TEST(Elastic, GR_15_16_GrowthAllocatesAtMostOneSpareBlock) {
  TinyEngine model(tiny("llama"), {.max_draft = 0});  // drafts may reach into the next block
  const MemoryUse before = model.engine.memory();
  const auto sequence =
      model.engine.start(random_tokens(10, 300, 1), greedy(500, {64, 128, 256, 1024}));
  size_t block = 0;
  while (!sequence->finished()) {
    model.engine.step();
    if (sequence->finished()) break;
    const MemoryUse use = model.engine.memory();
    if (block == 0) block = use.kv_in_use;
    EXPECT_EQ(use.kv_in_use, (sequence->n_evaluated() + 63) / 64 * block);
    EXPECT_LE(use.kv_backed, use.kv_in_use + block);
    EXPECT_EQ(use.kv_granted, (sequence->rung() + 63) / 64 * block);
    EXPECT_EQ(use.kv_reserved, before.kv_reserved);
    EXPECT_EQ(use.weights, before.weights);
  }
  EXPECT_EQ(sequence->events().size(), 3u);
  EXPECT_EQ(model.engine.memory().kv_granted, 0u);
}

// A different context size in each request neither reloads the model nor reserves memory again.
TEST(Elastic, NR_1_2_3_HundredContextSizesShareOneEngine) {
  TinyEngine model(tiny("qwen2"));
  const MemoryUse before = model.engine.memory();
  for (unsigned i = 0; i < 100; ++i) {
    SequenceOptions options = greedy(3, {});
    options.context.max_context = i % 2 == 0 ? 1024 : 100 + i;
    (void)run(model.engine, random_tokens(5, 300, i), options);
    const MemoryUse use = model.engine.memory();
    EXPECT_EQ(use.kv_reserved, before.kv_reserved);
    EXPECT_EQ(use.weights, before.weights);
    EXPECT_EQ(use.kv_granted, 0u);
  }
}

TEST(Elastic, P_17_EventsEqualThePlanners) {
  std::mt19937 random(17);
  for (int i = 0; i < 40; ++i) {
    TinyEngine model(tiny(kArchitectures[i % 3]), {.n_batch = 1 + random() % 100});
    const size_t top = 64 + random() % 200;
    const std::vector<size_t> sizes = {16 + random() % 30, 48 + random() % 10, top};
    const size_t n_prompt = 1 + random() % (top / 2);
    constexpr context::OverflowPolicy kPolicies[] = {context::OverflowPolicy::kStop,
                                                     context::OverflowPolicy::kRefill,
                                                     context::OverflowPolicy::kShift};
    SequenceOptions options = greedy(1 + random() % 600, sizes, kPolicies[random() % 3]);
    options.context.compaction = {random() % 6, 1 + random() % 20};
    const context::ContextPlan context_plan = {context::Ladder(sizes, top), options.context.policy,
                                               options.context.compaction, n_prompt};
    const context::RunPlan plan =
        context::plan_run(context_plan, n_prompt, static_cast<size_t>(options.max_new_tokens));
    const auto sequence = run(model.engine, random_tokens(n_prompt, 300, 5), options);
    std::vector<context::ContextEvent> events;
    for (const SequenceEvent& event : sequence->events()) events.push_back(event.event);
    EXPECT_EQ(events, plan.events) << "case " << i;
    EXPECT_EQ(sequence->n_generated(), plan.n_generated) << "case " << i;
    EXPECT_EQ(sequence->n_evaluated(), plan.n_held) << "case " << i;
  }
}

// After a refill, a sequence equals a new one that starts with the kept tokens.
TEST(Elastic, CP_1_2_RefillEqualsPrefillOfKeptTokens) {
  std::vector<reference::TinyModelOptions> models;
  for (const char* architecture : kArchitectures) models.push_back(tiny(architecture));
  // The text is a long one before the refill, and not after it.
  models.push_back(tiny("llama"));
  models.back().rope_scaling = reference::TinyRopeScaling::kLongRope;
  for (const reference::TinyModelOptions& made : models) {
    TinyEngine model(made);
    const SequenceOptions options = greedy(300, {64, 128}, context::OverflowPolicy::kRefill);
    const auto sequence = model.engine.start(random_tokens(20, 300, 3), options);
    while (sequence->n_dropped() == 0) model.engine.step();
    const context::Compaction kept = sequence->events().back().event.compaction;
    EXPECT_EQ(kept, (context::Compaction{20, 52, 76}));
    std::vector<int32_t> history;
    for (size_t i = 0; i <= kept.keep; ++i) history.push_back(sequence->token_at(i));
    const std::vector<int32_t> all(sequence->tokens().begin(), sequence->tokens().end());
    const size_t n_before = sequence->events().back().event.n_generated;
    EXPECT_TRUE(std::equal(history.begin(), history.begin() + 20, all.begin()));
    EXPECT_TRUE(std::equal(history.begin() + 20, history.end(),
                           all.begin() + static_cast<long>(20 + n_before - (kept.keep - 20) - 1)));
    for (int i = 0; i < 60; ++i) model.engine.step();
    TinyEngine other(made);
    const auto fresh = run(other.engine, history, greedy(50, {512}));
    const std::vector<int32_t> written = answer(*sequence);
    ASSERT_GE(written.size(), n_before + 50);
    const auto after = written.begin() + static_cast<long>(n_before);
    EXPECT_EQ(std::vector<int32_t>(after, after + 50), answer(*fresh))
        << made.architecture << " " << static_cast<int>(made.rope_scaling);
    model.engine.finish(*sequence, FinishReason::kStop);
  }
}

// In a model of one layer, keys and values depend only on their tokens and positions. A shift must
// therefore give the same result as a refill.
TEST(Elastic, CP_5_ShiftOfOneLayerEqualsRefill) {
  struct Case {
    const char* architecture;
    uint32_t window_period;  // 1: the layer is global, 2: it has a window
  };
  for (const Case& c : {Case{"llama", 1}, {"qwen2", 1}, {"gemma3", 1}, {"gemma3", 2}}) {
    reference::TinyModelOptions options = tiny(c.architecture);
    options.n_layers = 1;
    options.window_period = c.window_period;
    TinyEngine model(options);
    const std::vector<int32_t> text = random_tokens(700, 300, 6);
    std::vector<float> logits[2];
    for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kShift}) {
      std::vector<float>& all = logits[policy == context::OverflowPolicy::kShift ? 1 : 0];
      size_t expected = 100;
      const auto note = [&](size_t i, std::span<const float> row) {
        EXPECT_EQ(i, expected++);
        all.insert(all.end(), row.begin(), row.end());
      };
      model.engine.evaluate(text, expected, note,
                            {{.max_context = 128, .policy = policy, .compaction = {4, 8}}, 20});
      EXPECT_EQ(expected, 700u);
    }
    ASSERT_EQ(logits[0].size(), logits[1].size());
    float max = 0.0f;
    for (const float x : logits[0]) max = std::max(max, std::abs(x));
    for (size_t i = 0; i < logits[0].size(); ++i)
      ASSERT_NEAR(logits[0][i], logits[1][i], 1e-3f * max)
          << c.architecture << " " << c.window_period << ", token " << 100 + i / 300;
  }
}

// Kept KV stays in place: after a shift, the engine evaluates only new tokens.
TEST(Elastic, ShiftEvaluatesNoTokenAgainAndFreesMemory) {
  for (const char* architecture : kArchitectures) {
    TinyEngine model(tiny(architecture), {.max_draft = 0});
    const auto sequence = model.engine.start(random_tokens(20, 300, 3),
                                             greedy(900, {128}, context::OverflowPolicy::kShift));
    size_t max = 0;
    size_t n_steps = 0;
    for (; !sequence->finished(); ++n_steps) {
      model.engine.step();
      if (sequence->events().empty()) max = std::max(max, model.engine.kv_bytes());
    }
    EXPECT_EQ(n_steps, 900u) << architecture;
    EXPECT_GT(sequence->events().size(), 8u);
    // The gap can cost one more block at each end.
    EXPECT_LE(model.engine.memory().kv_max, max * 2);
    EXPECT_EQ(model.engine.kv_bytes(), 0u);
  }
}

TEST(Elastic, CP_3_RefillEvaluatesEachKeptTokenOnce) {
  TinyEngine model(tiny("llama"), {.n_batch = 1});
  const auto sequence = model.engine.start(random_tokens(20, 300, 3),
                                           greedy(300, {128}, context::OverflowPolicy::kRefill));
  size_t n_steps = 0;  // one row per step
  for (; !sequence->finished(); ++n_steps) model.engine.step();
  size_t n_again = 0;
  for (const SequenceEvent& event : sequence->events()) n_again += event.event.compaction.keep;
  EXPECT_GT(n_again, 0u);
  EXPECT_EQ(n_steps, 20 + 299 + n_again);
}

// A text without a prompt keeps its first n_anchor tokens.
TEST(Elastic, CP_4_TextKeepsItsFirstTokens) {
  TinyEngine model(tiny("llama"));
  const std::vector<int32_t> text = random_tokens(129, 300, 8);
  for (const size_t n_anchor : {size_t{0}, size_t{4}}) {
    std::vector<float> last;
    model.engine.evaluate(
        text, 128, [&](size_t, std::span<const float> row) { last.assign(row.begin(), row.end()); },
        {{.max_context = 128, .policy = context::OverflowPolicy::kRefill, .compaction = {4, 8}},
         n_anchor});
    std::vector<int32_t> kept(text.begin(), text.begin() + static_cast<long>(n_anchor));
    kept.insert(kept.end(), text.end() - 33, text.end());
    EXPECT_EQ(last, logits_of(model.engine, kept, kept.size() - 1));
  }
}

// Transitions and compactions interrupt neither text, nor stop strings, nor log probabilities.
TEST(Elastic, CP_8_GR_20_StopStringsAndTextContinueAcrossEvents) {
  TinyEngine model(tiny("llama"));
  SequenceOptions options = greedy(300, {32, 64, 128}, context::OverflowPolicy::kRefill);
  options.sampling.logprobs = true;
  const std::vector<int32_t> prompt = random_tokens(20, 300, 3);
  std::vector<std::string> pieces;  // text of each token
  std::vector<size_t> at_events;    // number of tokens at each event
  Generation whole(model.engine, prompt, options, {});
  size_t n_events = 0;
  while (!whole.finished()) {
    for (const Engine::Token& token : model.engine.step()) {
      EXPECT_LE(token.sampled.logprob, 0.0f);
      if (whole.sequence().events().size() != n_events) at_events.push_back(pieces.size());
      n_events = whole.sequence().events().size();
      pieces.push_back(whole.accept(token));
    }
  }
  pieces.push_back(whole.finish());
  EXPECT_GE(at_events.size(), 4u);
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  for (const size_t at : at_events) {
    // The stop string covers two tokens before the event to two tokens after it.
    std::string stop, before;
    for (size_t i = 0; i < at + 3; ++i) (i < at - 2 ? before : stop) += pieces[i];
    if (stop.empty() || text.find(stop) != before.size()) continue;
    Generation stopped(model.engine, prompt, options, {stop});
    std::string shown;
    while (!stopped.finished())
      for (const Engine::Token& token : model.engine.step()) shown += stopped.accept(token);
    shown += stopped.finish();
    EXPECT_EQ(shown, before) << "event at token " << at;
    EXPECT_EQ(stopped.sequence().finish_reason(), FinishReason::kStop);
  }
}

// After any number of compactions of either kind, a sequence holds its anchor and the latest
// tokens.
TEST(Elastic, P_15_HoldsAnchorAndLatestTokens) {
  std::mt19937 random(15);
  for (int i = 0; i < 12; ++i) {
    TinyEngine model(tiny(kArchitectures[i % 3]));
    const size_t n_prompt = 1 + random() % 60;
    SequenceOptions options =
        greedy(700, {64, 128},
               i % 2 == 0 ? context::OverflowPolicy::kRefill : context::OverflowPolicy::kShift);
    options.context.compaction = {random() % 4, 1 + random() % 12};
    const auto sequence = model.engine.start(random_tokens(n_prompt, 300, 5), options);
    while (!sequence->finished()) {
      model.engine.step();
      const std::span<const int32_t> all = sequence->tokens();
      const size_t n_kept = all.size() - sequence->n_dropped();
      ASSERT_GE(n_kept, n_prompt);
      for (size_t at = 0; at < n_kept; ++at)
        ASSERT_EQ(sequence->token_at(at), all[at < n_prompt ? at : at + sequence->n_dropped()]);
    }
    EXPECT_GE(sequence->events().size(), 5u);
  }
}

// llama-server cuts a prompt of 301 tokens to 109 tokens if a slot has 128. Its unlimited answer to
// a prompt of 8 ends after 120 tokens. Billow cuts no prompt. Its answer has one more token,
// because the last token needs no position.
TEST(Elastic, TR_3_RefusesPromptThatLlamaServerCuts) {
  TinyEngine model(tiny("llama"), {.max_context = 128});
  for (const auto policy : {context::OverflowPolicy::kStop, context::OverflowPolicy::kRefill}) {
    try {
      model.engine.start(random_tokens(301, 300, 1), greedy(64, {}, policy));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
      EXPECT_NE(std::string(error.what()).find("301"), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("128"), std::string::npos) << error.what();
    }
  }
  SequenceOptions unlimited = greedy(0, {});
  unlimited.max_new_tokens = -1;
  const auto sequence = run(model.engine, random_tokens(8, 300, 1), unlimited);
  EXPECT_EQ(sequence->finish_reason(), FinishReason::kLength);
  EXPECT_EQ(sequence->n_generated(), 121u);
}

TEST(Elastic, CG_1_RefusesPromptAboveHalfTheContextWithBothNumbers) {
  TinyEngine model(tiny("llama"));
  const SequenceOptions options = greedy(200, {128}, context::OverflowPolicy::kRefill);
  try {
    model.engine.start(random_tokens(65, 300, 1), options);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
    EXPECT_NE(std::string(error.what()).find("65"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("128"), std::string::npos);
  }
  EXPECT_EQ(run(model.engine, random_tokens(64, 300, 1), options)->n_generated(), 200u);
  // A long prompt is fine if the answer needs no compaction.
  EXPECT_EQ(run(model.engine, random_tokens(100, 300, 1),
                greedy(20, {128}, context::OverflowPolicy::kRefill))
                ->n_generated(),
            20u);
}

TEST(Elastic, CG_2_PolicyStopEndsTheAnswerWhenTheContextIsFull) {
  TinyEngine model(tiny("qwen2"));
  const auto sequence = run(model.engine, random_tokens(20, 300, 1), greedy(500, {32, 128}));
  EXPECT_EQ(sequence->finish_reason(), FinishReason::kLength);
  EXPECT_EQ(sequence->n_generated(), 128u - 20 + 1);
}

// One sequence is compacted repeatedly while others run. No sequence's tokens change.
TEST(Elastic, CompactionChangesNoOtherSequence) {
  for (const auto policy : {context::OverflowPolicy::kRefill, context::OverflowPolicy::kShift}) {
    TinyEngine model(tiny("gemma3"));
    const SequenceOptions elastic = greedy(300, {64, 128}, policy);
    const SequenceOptions plain = greedy(150, {1024});
    const auto alone = run(model.engine, random_tokens(20, 300, 3), elastic);
    const auto quiet = run(model.engine, random_tokens(90, 300, 4), plain);
    const auto a = model.engine.start(random_tokens(20, 300, 3), elastic);
    const auto b = model.engine.start(random_tokens(90, 300, 4), plain);
    while (!model.engine.idle()) model.engine.step();
    EXPECT_EQ(answer(*a), answer(*alone));
    EXPECT_EQ(answer(*b), answer(*quiet));
    EXPECT_EQ(model.engine.kv_bytes(), 0u);
  }
}

}  // namespace
}  // namespace billow::engine
