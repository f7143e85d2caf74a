// How models share memory and places.
#include <gtest/gtest.h>

#include "scheduler/planner_fake.h"

namespace billow::scheduler {
namespace {

using std::chrono::seconds;

const Words kNothing;

Options options_of(uint64_t budget_bytes, size_t n_parallel = 1) {
  Options options;
  options.budget_bytes = budget_bytes;
  options.n_parallel = n_parallel;
  return options;
}

TEST(Memory, TakesIdleMemoryBeforeUnloading) {
  Fake fake(options_of(300));
  fake.have(1, "a", {.n_context = 80});
  fake.report("a", 180, 80);
  EXPECT_EQ(fake.arrive(2, "b", {.n_context = 50}), (Words{"budget a 150"}));
  EXPECT_EQ(fake.planner.snapshot().granted_bytes, 180u);  // until its report
  EXPECT_EQ(fake.report("a", 150, 50), (Words{"load b 150"}));
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 2 b"}));
  EXPECT_EQ(fake.n_of(ActionKind::kUnload), 0u);
}

TEST(Memory, EvictsForOneRequestOnly) {
  Fake fake(options_of(300, 8));
  EXPECT_EQ(fake.arrive(1, "a"), (Words{"load a 180"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  fake.finish(1);
  EXPECT_EQ(fake.arrive(2, "b"),
            (Words{"load b 120"}));  // the free memory: enough for two of eight requests
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 2 b"}));
  EXPECT_EQ(fake.arrive(3, "b"), (Words{"assign 3 b"}));
  // A third request gets idle memory of others, or waits. No model is unloaded for it.
  EXPECT_EQ(fake.arrive(4, "b"), (Words{"budget a 170"}));
  EXPECT_EQ(fake.report("a", 100, 0), (Words{"budget b 130", "assign 4 b"}));
}

TEST(Memory, ReportOfOlderBudgetFreesNothing) {
  Fake fake(options_of(300));
  fake.have(1, "a", {.n_context = 80});
  const uint64_t version = fake.version_of("a");
  fake.arrive(2, "b", {.n_context = 50});
  EXPECT_TRUE(fake.planner.memory_changed("a", {version, 120, 20, 0}, fake.now).empty());
  EXPECT_EQ(fake.planner.snapshot().granted_bytes, 180u);
  EXPECT_EQ(fake.report("a", 120, 20), (Words{"load b 150"}));
}

TEST(Memory, UnloadsIfIdleMemoryIsTooLittle) {
  Fake fake(options_of(300));
  fake.have(1, "a", {.n_context = 50});
  fake.have(2, "b", {.n_context = 50});
  EXPECT_EQ(fake.arrive(3, "c", {.n_context = 80}), (Words{"budget b 120", "unload a"}));
  EXPECT_EQ(fake.gone("a"), kNothing);
  EXPECT_EQ(fake.report("b", 100, 0), (Words{"load c 180"}));
}

TEST(Memory, UnloadsShortestSessionFirstThenByKey) {
  Fake fake(options_of(330));
  fake.have(1, "c", {.keep_alive = seconds(50)});
  fake.have(2, "b", {.keep_alive = seconds(50)});
  fake.have(3, "a", {.keep_alive = kForever});
  EXPECT_EQ(fake.arrive(4, "d", {.n_context = 100}), (Words{"unload b", "unload c"}));
}

TEST(Memory, WaitsForBusyModelInsteadOfUnloadingIt) {
  Fake fake(options_of(200, 2));
  fake.arrive(1, "a");
  fake.loaded("a");
  EXPECT_EQ(fake.arrive(2, "b"), kNothing);
  EXPECT_EQ(fake.arrive(3, "a"), kNothing);  // came after the request that waits for memory
  EXPECT_EQ(fake.finish(1), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load b 120"}));
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 2 b"}));
  EXPECT_EQ(fake.finish(2), (Words{"unload b"}));
  EXPECT_EQ(fake.gone("b"), (Words{"load a 120"}));
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 3 a"}));
}

TEST(Memory, ServesOwnRequestsAfterTheWaitingOneLeft) {
  Fake fake(options_of(200, 2));
  fake.arrive(1, "a");
  fake.loaded("a");
  fake.arrive(2, "b");
  fake.arrive(3, "a");
  EXPECT_EQ(fake.cancel(2), (Words{"assign 3 a"}));
}

// Alternating requests of two models that do not fit together: one load each, not one per request.
TEST(Memory, ServesAllWaitingRequestsBeforeUnload) {
  Fake fake(options_of(200));
  for (RequestId id = 1; id <= 6; ++id) fake.arrive(id, id % 2 == 1 ? "a" : "b");
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  EXPECT_EQ(fake.finish(1), (Words{"assign 3 a"}));
  EXPECT_EQ(fake.finish(3), (Words{"assign 5 a"}));
  EXPECT_EQ(fake.finish(5), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load b 110"}));
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 2 b"}));
  EXPECT_EQ(fake.finish(2), (Words{"assign 4 b"}));
}

TEST(Memory, ServesOthersWhileWaitingForABusyModel) {
  Options options = options_of(1000);
  options.n_max_loaded = 2;
  Fake fake(options);
  fake.have(1, "a", {.keep_alive = seconds(1)});
  fake.have(2, "b");
  fake.arrive(3, "a");
  fake.arrive(4, "b");
  EXPECT_EQ(fake.arrive(5, "c"), kNothing);        // waits for a
  EXPECT_EQ(fake.finish(4), (Words{"unload b"}));  // was idle first
  EXPECT_EQ(fake.gone("b"), (Words{"load c 110"}));
  EXPECT_EQ(fake.finish(3), kNothing);
}

TEST(Memory, LimitsLoadedModels) {
  Fake fake(options_of(10000));
  fake.have(1, "a", {.keep_alive = seconds(3)});
  fake.have(2, "b", {.keep_alive = seconds(1)});
  fake.have(3, "c", {.keep_alive = seconds(2)});
  EXPECT_EQ(fake.arrive(4, "d"), (Words{"unload b"}));
  EXPECT_EQ(fake.gone("b"), (Words{"load d 110"}));
}

TEST(Memory, EmbeddingModelEvictsNoChatModelWithEnoughMemory) {
  Options options = options_of(250);
  options.n_max_loaded = 1;
  Fake fake(options);
  fake.have(1, "chat");
  EXPECT_EQ(fake.arrive(2, "embed", {.is_embedding = true}), (Words{"load embed 110"}));
  fake.loaded("embed");
  fake.finish(2);
  EXPECT_EQ(fake.arrive(3, "chat"), (Words{"assign 3 chat"}));
  fake.finish(3);
  // A model of the same kind takes its place, not the chat model's.
  EXPECT_EQ(fake.arrive(4, "embed2", {.is_embedding = true}), (Words{"unload embed"}));
}

TEST(Memory, EmbeddingRequestsShareMemoryOfOnePass) {
  Fake fake(options_of(150));
  fake.have(1, "e", {.n_context = 50, .is_embedding = true});
  for (RequestId id = 2; id < 100; ++id) {
    ASSERT_EQ(fake.arrive(id, "e", {.n_context = 50, .is_embedding = true}),
              (Words{"assign " + std::to_string(id) + " e"}));
  }
}

// NR-4: a running request of one model gets idle pages of the other, busy or not. No model is
// unloaded.
TEST(Memory, NR_4_GrowthTakesIdlePagesWithoutUnload) {
  Fake fake(options_of(400));
  fake.have(1, "a", {.n_context = 150});
  fake.report("a", 250, 150);
  fake.arrive(2, "b", {.n_context = 50});
  fake.loaded("b");
  EXPECT_EQ(fake.report("b", 150, 0, 60), (Words{"budget a 190"}));
  EXPECT_EQ(fake.report("a", 190, 90), (Words{"budget b 210"}));
  fake.arrive(3, "a", {.n_context = 40});
  EXPECT_EQ(fake.report("b", 210, 0, 30), (Words{"budget a 160"}));
  EXPECT_EQ(fake.report("a", 160, 20), (Words{"budget b 240"}));
  EXPECT_EQ(fake.report("b", 240, 0, 21), kNothing);  // more than exists: the runner compacts
  EXPECT_EQ(fake.n_of(ActionKind::kUnload), 0u);
}

// The planner always decides about a paused request: it gets idle memory, idle models included, or
// learns the max budget.
TEST(Memory, PausedRequestGetsIdleMemoryOrCeiling) {
  Fake fake(options_of(400));
  fake.have(1, "a", {.n_context = 50});
  fake.arrive(2, "b", {.n_context = 50});
  fake.loaded("b");
  EXPECT_EQ(fake.report("b", 150, 0, 60, true), (Words{"budget b 210"})) << "free memory";
  EXPECT_EQ(fake.report("b", 210, 0, 70, true), (Words{"budget a 120"}));
  EXPECT_EQ(fake.report("a", 120, 20), (Words{"budget b 280"}));
  EXPECT_EQ(fake.report("b", 280, 0, 120, true), (Words{"unload a"})) << "a is idle";
  EXPECT_EQ(fake.gone("a"), (Words{"budget b 400"}));
  EXPECT_EQ(fake.report("b", 400, 0, 1, true), (Words{"budget b 400, no more than 400"}));
  EXPECT_EQ(fake.report("b", 400, 0, 1), kNothing) << "b knows the ceiling";
  EXPECT_EQ(fake.report("b", 400, 0, 2, true), (Words{"budget b 400, no more than 400"}))
      << "another request is paused";
}

TEST(Memory, PausedRequestUnloadsNoBusyModel) {
  Fake fake(options_of(400));
  fake.have(1, "a", {.n_context = 100});
  fake.arrive(2, "a", {.n_context = 50});
  fake.arrive(3, "b", {.n_context = 50});
  fake.loaded("b");
  EXPECT_EQ(fake.report("b", 150, 0, 150, true), (Words{"budget b 150, no more than 250"}));
  EXPECT_EQ(fake.finish(2), (Words{"budget a 100"})) << "the memory of a is idle now";
  EXPECT_EQ(fake.report("a", 100, 0), (Words{"budget b 300"}));
}

TEST(Memory, MemoryFreedByOwnRequestIsNotWanted) {
  Fake fake(options_of(300, 2));
  fake.arrive(1, "a", {.n_context = 50});
  fake.loaded("a");
  fake.arrive(2, "a", {.n_context = 50});
  EXPECT_EQ(fake.report("a", 200, 0, 120, true), (Words{"budget a 200, no more than 300"}));
  fake.report("a", 200, 0, 120);
  EXPECT_EQ(fake.finish(1), (Words{"budget a 270"}));
}

TEST(Memory, ScratchIsMaxOfAssignedRequests) {
  Fake fake(options_of(1000));
  EXPECT_EQ(fake.arrive(1, "a", {.n_context = 10, .scratch_bytes = 5}), (Words{"load a 115"}));
  fake.loaded("a");
  fake.finish(1);
  EXPECT_EQ(fake.arrive(2, "a", {.n_context = 10, .scratch_bytes = 50}),
            (Words{"budget a 160", "assign 2 a"}));
  fake.finish(2);
  EXPECT_EQ(fake.arrive(3, "a", {.n_context = 10, .scratch_bytes = 5}), (Words{"assign 3 a"}));
}

TEST(Memory, LargerRequestGrowsModelAndEvictsOthers) {
  Fake fake(options_of(300));
  fake.have(1, "a");
  fake.have(2, "b");
  EXPECT_EQ(fake.arrive(3, "a", {.n_context = 85}), (Words{"budget a 185", "assign 3 a"}));
  fake.finish(3);
  EXPECT_EQ(fake.arrive(4, "b", {.n_context = 95}), (Words{"budget a 105"}));
  EXPECT_EQ(fake.report("a", 105, 5), (Words{"budget b 195", "assign 4 b"}));
  fake.finish(4);
  EXPECT_EQ(fake.arrive(5, "a", {.n_context = 150}), (Words{"unload b"}));
  EXPECT_EQ(fake.gone("b"), (Words{"budget a 250", "assign 5 a"}));
}

TEST(Memory, FurtherParallelRequestsUnloadNoModel) {
  Fake fake(options_of(230, 2));
  fake.have(1, "a");
  fake.arrive(2, "b", {.n_context = 30, .weight_bytes = 50});
  EXPECT_EQ(fake.loaded("b", 50), (Words{"assign 2 b"}));
  EXPECT_EQ(fake.arrive(3, "b", {.n_context = 60}), kNothing);  // needs 30 bytes more
  EXPECT_EQ(fake.arrive(4, "b", {.n_context = 1}), kNothing);   // first in, first out
  EXPECT_EQ(fake.arrive(5, "a"), (Words{"assign 5 a"}));
  // Request 3 fits now. Another model frees the byte for request 4.
  EXPECT_EQ(fake.finish(2), (Words{"assign 3 b", "budget a 119"}));
  EXPECT_EQ(fake.report("a", 119, 9), (Words{"budget b 111", "assign 4 b"}));
}

TEST(Memory, RetriesOutOfMemoryLoadWithWholeBudget) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  fake.arrive(2, "b");
  EXPECT_EQ(fake.load_failed("b", {true, "no memory"}), (Words{"unload b"}));
  EXPECT_EQ(fake.gone("b"), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load b 1000"}));
  EXPECT_EQ(fake.load_failed("b", {true, "no memory"}),
            (Words{"fail 2 500 no memory", "unload b"}));
  fake.gone("b");
  EXPECT_EQ(fake.arrive(3, "b"), (Words{"load b 110"}));
}

TEST(Memory, ModelLargerThanItsHeaderGetsFreeMemory) {
  Fake fake(options_of(300));
  fake.have(1, "a");
  fake.arrive(2, "b");
  EXPECT_EQ(fake.loaded("b", 150), (Words{"budget b 150", "budget b 160", "assign 2 b"}));
  fake.finish(2);
  fake.arrive(3, "c", {.weight_bytes = 1});
  EXPECT_EQ(fake.loaded("c", 40), (Words{"unload c"}));  // 30 bytes are free
  EXPECT_EQ(fake.gone("c"), (Words{"unload a", "unload b"}));
  fake.gone("a");
  EXPECT_EQ(fake.gone("b"), (Words{"load c 300"}));
  EXPECT_EQ(fake.loaded("c", 301),
            (Words{"fail 3 500 model requires more system memory (301 B) than is available (300 B)",
                   "unload c"}));
}

TEST(Memory, LargerModelRejectsRequestWithoutRoom) {
  Fake fake(options_of(150));
  fake.arrive(1, "a");
  EXPECT_EQ(fake.loaded("a", 145),
            (Words{"budget a 145",
                   "refuse 1 500 model requires more system memory (155 B) than is "
                   "available (150 B)"}));
}

TEST(Memory, ReservesScratchForFirstPass) {
  Options options;
  options.budget_bytes = 1000;
  Fake fake(options);
  const Asked empty = {.n_context = 0, .scratch_bytes = 50};
  EXPECT_EQ(fake.arrive(1, "a", empty), (Words{"load a 150"}));
  EXPECT_EQ(fake.loaded("a", 100), (Words{"assign 1 a"})) << "it holds only its weights";
  fake.finish(1);
  EXPECT_EQ(fake.arrive(2, "a", {.n_context = 30, .scratch_bytes = 50}),
            (Words{"budget a 180", "assign 2 a"}));
}

}  // namespace
}  // namespace billow::scheduler
