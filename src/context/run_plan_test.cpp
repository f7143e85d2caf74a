#include "context/run_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "base/error.h"

namespace billow::context {
namespace {

Ladder ladder_of(std::vector<size_t> sizes) { return {sizes, sizes.back()}; }

// Returns the held tokens at each growth. compactions(): the generated tokens at each compaction.
std::vector<size_t> transitions(const RunPlan& plan) {
  std::vector<size_t> at;
  for (const ContextEvent& event : plan.events) {
    if (event.step == Step::kGrow) at.push_back(event.n_held);
  }
  return at;
}
std::vector<size_t> compactions(const RunPlan& plan) {
  std::vector<size_t> at;
  for (const ContextEvent& event : plan.events) {
    if (event.step == Step::kCompact) at.push_back(event.n_generated);
  }
  return at;
}

constexpr size_t kNoLimit = SIZE_MAX;

TEST(RunPlan, GR_1_10_GrowsAndStopsWhenTheContextIsFull) {
  const ContextPlan context_plan = {
      ladder_of({512, 1024, 2048, 3072, 4096}), OverflowPolicy::kStop, {}, 97};
  const RunPlan plan = plan_run(context_plan, 97, kNoLimit);
  EXPECT_EQ(transitions(plan), (std::vector<size_t>{512, 1024, 2048, 3072}));
  // GR-10: the first rung generates one token more, because the last token has no position yet.
  EXPECT_EQ(plan.rungs, (std::vector<RungTokens>{
                            {512, 416}, {1024, 512}, {2048, 1024}, {3072, 1024}, {4096, 1024}}));
  EXPECT_EQ(plan.n_generated, 4000u);
  EXPECT_EQ(plan.n_held, 4096u);
  EXPECT_TRUE(plan.context_full);
}

TEST(RunPlan, GR_2_3_5_ShortRunsNeedNoTransition) {
  for (const size_t n_prompt : {512u, 513u}) {
    const RunPlan plan = plan_run(
        {ladder_of({512, 1024, 2048}), OverflowPolicy::kRefill, {}, n_prompt}, n_prompt, 10);
    EXPECT_EQ(plan.first_rung, 1024u);
    EXPECT_TRUE(plan.events.empty());
    EXPECT_EQ(plan.n_held, n_prompt + 9);
    EXPECT_FALSE(plan.context_full);
  }
  const RunPlan one = plan_run({ladder_of({512}), OverflowPolicy::kStop, {}, 97}, 97, 10);
  EXPECT_EQ(one.first_rung, 512u);
  EXPECT_TRUE(one.events.empty());
}

TEST(RunPlan, GR_4_RefusesAPromptAboveTheTop) {
  EXPECT_THROW(plan_run({ladder_of({512, 1024}), OverflowPolicy::kRefill, {}, 0}, 1025, 10), Error);
}

TEST(RunPlan, GR_8_9_CompactsASmallContextRepeatedly) {
  const Ladder ladder = ladder_of({64, 128, 256});
  const RunPlan eight = plan_run({ladder, OverflowPolicy::kRefill, {4, 8}, 10}, 10, 600);
  EXPECT_EQ(transitions(eight), (std::vector<size_t>{64, 128}));
  EXPECT_EQ(compactions(eight), (std::vector<size_t>{247, 461}));
  EXPECT_EQ(eight.events[2].compaction, (Compaction{10, 42, 214}));
  EXPECT_EQ(eight.rungs, (std::vector<RungTokens>{{64, 55}, {128, 64}, {256, 481}}));
  EXPECT_EQ(eight.n_held, 181u);
  const RunPlan sixteen = plan_run({ladder, OverflowPolicy::kRefill, {4, 16}, 10}, 10, 600);
  EXPECT_EQ(compactions(sixteen), (std::vector<size_t>{247, 429}));
  EXPECT_EQ(sixteen.events[2].compaction, (Compaction{10, 74, 182}));
  EXPECT_EQ(sixteen.n_held, 245u);
}

TEST(RunPlan, GR_22_SkipsRungsForManyTokens) {
  const ContextPlan context_plan = {Ladder(8192), OverflowPolicy::kRefill, {}, 10};
  const Decision next = decide(context_plan, 512, 500, 3000);
  EXPECT_EQ(next.step, Step::kGrow);
  EXPECT_EQ(next.rung, 4096u);
}

TEST(RunPlan, LR_1_6_7_GeneratesTwentyFourThousandTokens) {
  const ContextPlan context_plan = {
      ladder_of({512, 1024, 2048, 3072, 4096}), OverflowPolicy::kRefill, {}, 42};
  const RunPlan plan = plan_run(context_plan, 42, 24000);
  EXPECT_EQ(transitions(plan), (std::vector<size_t>{512, 1024, 2048, 3072}));
  EXPECT_EQ(compactions(plan), (std::vector<size_t>{4055, 7533, 11011, 14489, 17967, 21445}));
  for (size_t i = 4; i < plan.events.size(); ++i) {
    EXPECT_EQ(plan.events[i].n_held, 4096u);
    EXPECT_EQ(plan.events[i].compaction, (Compaction{42, 618, 3478}));
  }
  EXPECT_EQ(plan.rungs, (std::vector<RungTokens>{
                            {512, 471}, {1024, 512}, {2048, 1024}, {3072, 1024}, {4096, 20969}}));
  // LR-7: held = all tokens - dropped tokens; the last token takes no position.
  EXPECT_EQ(plan.n_held, size_t{42} + 24000 - 1 - size_t{6} * 3478);
  EXPECT_EQ(plan.n_evaluated_again, size_t{6} * 618);  // LR-6
  EXPECT_EQ(plan.n_generated, 24000u);
}

TEST(RunPlan, LR_2_3_OtherRungsAndBatches) {
  const Ladder ladder = ladder_of({512, 1024, 2048, 4096});
  const RunPlan plan = plan_run({ladder, OverflowPolicy::kRefill, {}, 42}, 42, 24000);
  EXPECT_EQ(plan.rungs,
            (std::vector<RungTokens>{{512, 471}, {1024, 512}, {2048, 1024}, {4096, 21993}}));
  EXPECT_EQ(plan.n_compactions(), 6u);
  const RunPlan small = plan_run({ladder, OverflowPolicy::kRefill, {9, 32}, 42}, 42, 24000);
  EXPECT_EQ(small.n_compactions(), 6u);
  EXPECT_EQ(small.events.back().compaction, (Compaction{42, 330, 3766}));
  EXPECT_EQ(small.n_held, 1445u);
}

// Calls decide() before each token and compares: plan_run() must not miss an event.
TEST(RunPlan, EqualsDecidingBeforeEachToken) {
  for (const size_t n_prompt : {1u, 63u, 64u, 100u, 128u, 200u, 256u}) {
    for (const size_t n_generate : {1u, 2u, 57u, 64u, 65u, 1000u}) {
      const ContextPlan context_plan = {
          ladder_of({64, 128, 256}), OverflowPolicy::kRefill, {4, 16}, n_prompt};
      size_t rung = context_plan.ladder.first(n_prompt);
      size_t n_held = n_prompt;
      size_t n_generated = 1;
      std::vector<ContextEvent> events;
      bool full = false;
      for (; n_generated < n_generate; ++n_generated, ++n_held) {
        const Decision next = decide(context_plan, rung, n_held);
        full = next.step == Step::kStop;
        if (full) break;
        if (next.step != Step::kWrite)
          events.push_back({next.step, rung, next.rung, n_held, n_generated, next.compaction});
        if (next.step == Step::kCompact) n_held = next.compaction.keep;
        rung = next.rung;
      }
      const RunPlan plan = plan_run(context_plan, n_prompt, n_generate);
      EXPECT_EQ(plan.events, events) << n_prompt << ", " << n_generate;
      EXPECT_EQ(plan.n_held, n_held);
      EXPECT_EQ(plan.n_generated, n_generated);
      EXPECT_EQ(plan.context_full, full);
    }
  }
}

TEST(RunPlan, CG_1_AnAnswerThatMayNeedACompactionNeedsAShortPrompt) {
  const auto refusal = [](size_t n_prompt, int64_t num_predict, OverflowPolicy policy) {
    try {
      check_anchor({ladder_of({128}), policy, {}, n_prompt}, num_predict);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTooLarge);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string refused = refusal(65, 200, OverflowPolicy::kRefill);
  EXPECT_NE(refused.find("65 tokens"), std::string::npos) << refused;
  EXPECT_NE(refused.find("128"), std::string::npos) << refused;
  EXPECT_NE(refusal(65, 64, OverflowPolicy::kShift), "");
  EXPECT_EQ(refusal(65, 63, OverflowPolicy::kRefill), "");
  EXPECT_EQ(refusal(64, 200, OverflowPolicy::kRefill), "");
  EXPECT_EQ(refusal(65, 200, OverflowPolicy::kStop), "");
  for (const int64_t no_count : {0, -1, -2})
    EXPECT_EQ(refusal(100, no_count, OverflowPolicy::kRefill), "");
}

TEST(RunPlan, LR_4_5_AnAnchorAboveHalfTheContextEndsTheRun_CG_1) {
  for (const size_t n_prompt : {4000u, 4096u}) {
    const RunPlan plan =
        plan_run({ladder_of({4096}), OverflowPolicy::kRefill, {}, n_prompt}, n_prompt, 2000);
    EXPECT_TRUE(plan.context_full);
    EXPECT_TRUE(plan.events.empty());
    EXPECT_EQ(plan.n_generated, 4096 - n_prompt + 1);
  }
}

TEST(RunPlan, ShiftEvaluatesNothingAgain) {
  const ContextPlan context_plan = {Ladder(1024), OverflowPolicy::kShift, {}, 42};
  const RunPlan plan = plan_run(context_plan, 42, 5000);
  EXPECT_GT(plan.n_compactions(), 0u);
  EXPECT_EQ(plan.n_evaluated_again, 0u);
}

// P-12: rungs never shrink, hold all held tokens, and are few, because they double. P-18: every
// small run ends, stays within its rung and makes progress.
TEST(RunPlan, P_12_RungsOnlyRiseAndAreFew) {
  std::mt19937 random(12);
  for (int i = 0; i < 10000; ++i) {
    const size_t top = 1 + random() % 200000;
    const size_t n_prompt = 1 + random() % top;
    const ContextPlan context_plan = {Ladder(top), OverflowPolicy::kStop, {}, n_prompt};
    const RunPlan plan = plan_run(context_plan, n_prompt, 1 + random() % 300000);
    size_t rung = plan.first_rung;
    ASSERT_GE(rung, n_prompt);
    for (const ContextEvent& event : plan.events) {
      ASSERT_EQ(event.from, rung);
      ASSERT_GT(event.to, rung);
      ASSERT_GE(event.to, event.n_held + 1);
      rung = event.to;
    }
    ASSERT_LE(plan.n_held, rung);
    const double doublings = std::ceil(std::log2(std::max(1.0, static_cast<double>(top) / 512)));
    ASSERT_LE(plan.events.size(), static_cast<size_t>(doublings) + 1);
  }
}

TEST(RunPlan, P_18_EverySmallRunEnds) {
  constexpr size_t kTokens = 64;
  size_t n_runs = 0;
  for (const std::vector<size_t>& sizes :
       std::vector<std::vector<size_t>>{{2}, {4}, {8}, {2, 4}, {2, 8}, {4, 8}, {2, 4, 8}}) {
    for (const size_t batch : {1u, 2u, 4u}) {
      for (size_t reserve = 0; reserve <= 3; ++reserve) {
        for (size_t n_prompt = 1; n_prompt <= sizes.back(); ++n_prompt) {
          for (const OverflowPolicy policy :
               {OverflowPolicy::kRefill, OverflowPolicy::kShift, OverflowPolicy::kStop}) {
            ++n_runs;
            const ContextPlan context_plan = {ladder_of(sizes), policy, {reserve, batch}, n_prompt};
            const RunPlan plan = plan_run(context_plan, n_prompt, kTokens);
            size_t n_dropped = 0;
            size_t rung = plan.first_rung;
            for (const ContextEvent& event : plan.events) {
              ASSERT_EQ(event.from, rung);
              ASSERT_EQ(event.n_held, rung);
              ASSERT_GE(event.to, rung);
              rung = event.to;
              if (event.step != Step::kCompact) continue;
              ASSERT_EQ(event.n_held, sizes.back());
              ASSERT_GE(event.compaction.drop, 1u);
              ASSERT_GE(event.compaction.keep, n_prompt);
              n_dropped += event.compaction.drop;
            }
            ASSERT_LE(plan.n_held, rung);
            ASSERT_EQ(plan.n_held + n_dropped, n_prompt + plan.n_generated - 1);
            ASSERT_EQ(plan.context_full, plan.n_generated < kTokens);
            size_t n_generated = 0;
            for (const RungTokens& part : plan.rungs) n_generated += part.n_generated;
            ASSERT_EQ(n_generated, plan.n_generated);
          }
        }
      }
    }
  }
  EXPECT_GT(n_runs, 1000u);
}

}  // namespace
}  // namespace billow::context
