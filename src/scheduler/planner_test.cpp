#include "scheduler/planner.h"

#include <gtest/gtest.h>

#include "scheduler/planner_fake.h"

namespace billow::scheduler {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const Words kNothing;
const std::string kBusy = " 503 " + std::string(kBusyText);

Options options_of(uint64_t budget_bytes, size_t n_parallel = 1) {
  Options options;
  options.budget_bytes = budget_bytes;
  options.n_parallel = n_parallel;
  return options;
}

TEST(Planner, LoadsOnceForAllWaitingRequests) {
  Fake fake(options_of(1000, 2));
  EXPECT_EQ(fake.arrive(1, "a"), (Words{"load a 120"}));
  EXPECT_EQ(fake.arrive(2, "a"), kNothing);
  EXPECT_EQ(fake.arrive(3, "a"), kNothing);
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a", "assign 2 a"}));
  EXPECT_EQ(fake.model("a").n_running, 2u);
  EXPECT_EQ(fake.model("a").n_waiting, 1u);
  EXPECT_EQ(fake.finish(2), (Words{"assign 3 a"}));
}

// Seed 000: the estimate gets the context and the number of parallel requests separately. The
// context does not depend on the number of requests.
TEST(Planner, ReservesForParallelRequestsWithoutScalingContext) {
  for (const size_t n_parallel : {1u, 2u, 4u}) {
    Fake fake(options_of(100000, n_parallel));
    EXPECT_EQ(fake.arrive(1, "a", {.n_context = 2048}),
              (Words{"load a " + std::to_string(100 + 2048 * n_parallel)}));
  }
}

TEST(Planner, TenantsTakeTurnsByTheirWork) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  const auto of = [](const char* tenant, uint64_t work) {
    return Asked{.tenant = tenant, .work = work};
  };
  EXPECT_EQ(fake.arrive(2, "a", of("ann", 100)), (Words{"assign 2 a"}));
  fake.arrive(3, "a", of("ann", 100));
  fake.arrive(4, "a", of("ann", 100));
  fake.arrive(5, "a", of("bob", 40));
  fake.arrive(6, "a", of("bob", 40));
  fake.arrive(7, "a", of("bob", 40));
  fake.arrive(8, "a", of("bob", 40));
  // Ann has 100, and Bob begins where Ann began.
  EXPECT_EQ(fake.finish(2, 100), (Words{"assign 5 a"}));
  EXPECT_EQ(fake.finish(5, 40), (Words{"assign 6 a"}));
  EXPECT_EQ(fake.finish(6, 40), (Words{"assign 7 a"}));
  EXPECT_EQ(fake.finish(7, 40), (Words{"assign 3 a"}));  // 100 against 120
  EXPECT_EQ(fake.finish(3, 5), (Words{"assign 4 a"}));   // it cost only 5: 105 against 120
  EXPECT_EQ(fake.finish(4, 100), (Words{"assign 8 a"}));
}

TEST(Planner, TenantsPayTheirRealWorkAlsoAfterACancellation) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  EXPECT_EQ(fake.arrive(2, "a", {.tenant = "ann", .work = 8000}), (Words{"assign 2 a"}));
  fake.arrive(3, "a", {.tenant = "ann", .work = 100});
  fake.arrive(4, "a", {.tenant = "bob", .work = 100});
  fake.arrive(5, "a", {.tenant = "bob", .work = 100});
  EXPECT_EQ(fake.cancel(2, 20), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.finish(4, 100), (Words{"assign 3 a"}));  // 20 against 100
  EXPECT_EQ(fake.finish(3, 100), (Words{"assign 5 a"}));
}

TEST(Planner, TooLargeEstimatesGiveATenantNoLead) {
  Fake fake(options_of(1000, 2));
  fake.have(1, "a");
  for (const RequestId id : {2u, 3u}) fake.arrive(id, "a", {.tenant = "ann", .work = 8000});
  for (const RequestId id : {4u, 5u, 6u, 7u}) fake.arrive(id, "a", {.tenant = "ann", .work = 10});
  EXPECT_EQ(fake.finish(2, 5), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.finish(3, 5), (Words{"assign 5 a"}));
  fake.arrive(8, "a", {.tenant = "bob", .work = 10});
  EXPECT_EQ(fake.finish(4, 10), (Words{"assign 8 a"}));
}

TEST(Planner, TenantsPayNothingForLostWork) {
  Fake fake(options_of(1000, 2));
  fake.have(1, "a");
  fake.arrive(2, "a", {.tenant = "ann", .work = 8000});
  fake.arrive(3, "a", {.tenant = "ann", .work = 8000});
  fake.arrive(4, "a", {.tenant = "ann", .work = 20});
  for (const RequestId id : {5u, 6u, 7u}) fake.arrive(id, "a", {.tenant = "bob", .work = 60});
  fake.gone("a", {2, 3});  // both have streamed, so that they fail
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 4 a", "assign 5 a"}));
}

// Without tenants, nobody pays. So such a request gives nothing back, even if a tenant with a name
// arrives before it ends.
TEST(Planner, WorkThatBeganBeforeTheFirstTenantGivesNoCredit) {
  Fake fake(options_of(1000, 2));
  fake.have(1, "a");
  EXPECT_EQ(fake.arrive(2, "a", {.work = 8000}), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.arrive(3, "a", {.tenant = "ann", .work = 100}), (Words{"assign 3 a"}));
  fake.arrive(4, "a", {.work = 100});
  fake.arrive(5, "a", {.tenant = "ann", .work = 100});
  fake.arrive(6, "a", {.work = 100});
  EXPECT_EQ(fake.finish(3, 100), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.finish(2, 10), (Words{"assign 5 a"}));  // 100 against 100
}

TEST(Planner, TenantsPayOnceForARetriedRequest) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  EXPECT_EQ(fake.arrive(2, "a", {.tenant = "ann", .work = 100}), (Words{"assign 2 a"}));
  fake.arrive(3, "a", {.tenant = "ann", .work = 10});
  for (const RequestId id : {4u, 5u, 6u}) fake.arrive(id, "a", {.tenant = "bob", .work = 60});
  fake.gone("a");
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.finish(2, 100), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.finish(4, 60), (Words{"assign 5 a"}));
  EXPECT_EQ(fake.finish(5, 60), (Words{"assign 3 a"}));  // 100 against 120
}

TEST(Planner, TenantsWithoutNamesRunInOrderOfArrival) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  EXPECT_EQ(fake.arrive(2, "a", {.work = 1000}), (Words{"assign 2 a"}));
  fake.arrive(3, "a", {.work = 5000});
  fake.arrive(4, "a");
  EXPECT_EQ(fake.finish(2), (Words{"assign 3 a"}));
  EXPECT_EQ(fake.finish(3), (Words{"assign 4 a"}));
}

TEST(Planner, LoadedModelServesWhileAnotherLoads) {
  Fake fake(options_of(1000));
  fake.have(1, "a");
  EXPECT_EQ(fake.arrive(2, "b"), (Words{"load b 110"}));
  EXPECT_EQ(fake.arrive(3, "c"), kNothing);  // waits for the load of b
  EXPECT_EQ(fake.arrive(4, "a"), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 2 b", "load c 110"}));
}

TEST(Planner, LoadsInOrderOfFirstRequests) {
  Fake fake(options_of(1000));
  fake.arrive(1, "d");
  fake.arrive(2, "c");
  fake.arrive(3, "b");
  fake.arrive(4, "c");
  EXPECT_EQ(fake.loaded("d"), (Words{"assign 1 d", "load c 110"}));
  fake.cancel(2);  // its load continues; the next request of c comes after no other
  EXPECT_EQ(fake.loaded("c"), (Words{"assign 4 c", "load b 110"}));
}

// NR-3: alternating contexts of 1024 and 8192 cause one load and one growth of the budget.
TEST(Planner, NR_3_AlternatingContextsNeverReload) {
  Fake fake(options_of(100000));
  RequestId id = 0;
  for (int round = 0; round < 100; ++round) {
    for (const size_t n_context : {1024u, 8192u}) {
      fake.arrive(++id, "a", {.n_context = n_context});
      if (id == 1) fake.loaded("a");
      ASSERT_EQ(fake.model("a").n_running, 1u) << "request " << id;
      fake.report("a", 100 + n_context, 0);
      fake.finish(id);
      fake.report("a", 100 + n_context, n_context);
    }
  }
  EXPECT_EQ(fake.n_loads("a"), 1u);
  EXPECT_EQ(fake.n_of(ActionKind::kUnload), 0u);
  EXPECT_LE(fake.n_of(ActionKind::kSetBudget), 10u);
}

TEST(Planner, RejectsImpossibleRequestWithBothSizes) {
  Fake fake(options_of(uint64_t{4} << 30));
  const uint64_t weights = (uint64_t{5} << 30) + (uint64_t{6} << 30) / 10;
  EXPECT_EQ(fake.arrive(1, "a", {.weight_bytes = weights}),
            (Words{"refuse 1 500 model requires more system memory (5.6 GiB) than is available "
                   "(4.0 GiB)"}));
  EXPECT_TRUE(fake.planner.snapshot().models.empty());
  // The same for the context of a request to a loaded model.
  fake.have(2, "b");
  EXPECT_EQ(fake.arrive(3, "b", {.n_context = size_t{6} << 30})[0].substr(0, 56),
            "refuse 3 500 model requires more system memory (6.0 GiB)");
}

TEST(Planner, LoadsModelWithoutRoomForAllParallelRequests) {
  Fake fake(options_of(125, 4));
  fake.arrive(1, "a");
  EXPECT_EQ(fake.model("a").granted_bytes, 125u);
  fake.arrive(2, "a");
  fake.arrive(3, "a");
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a", "assign 2 a"}));
  EXPECT_EQ(fake.finish(1), (Words{"assign 3 a"}));
}

TEST(Planner, FullQueueRejectsOnlyRequestsThatMustWait) {
  Options options = options_of(1000);
  options.n_max_queue = 2;
  Fake fake(options);
  fake.have(1, "a");
  fake.arrive(2, "b");
  fake.arrive(3, "b");
  EXPECT_EQ(fake.arrive(4, "b"), (Words{"refuse 4" + kBusy}));
  EXPECT_EQ(fake.arrive(5, "c"), (Words{"refuse 5" + kBusy}));
  EXPECT_EQ(fake.arrive(6, "a"), (Words{"assign 6 a"}));  // does not have to wait
  EXPECT_EQ(fake.arrive(7, "a"), (Words{"refuse 7" + kBusy}));
  fake.cancel(3);
  EXPECT_EQ(fake.arrive(8, "a"), kNothing);  // waiting requests of a loaded model count, too
  EXPECT_EQ(fake.arrive(9, "b"), (Words{"refuse 9" + kBusy}));
  EXPECT_EQ(fake.planner.snapshot().n_waiting, 2u);
}

TEST(Planner, CancelsRequestInAnyState) {
  Fake fake(options_of(1000));
  fake.arrive(1, "a");
  fake.arrive(2, "a");
  EXPECT_EQ(fake.cancel(2), kNothing);  // while loading
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 1 a"}));
  fake.arrive(3, "a");
  fake.arrive(4, "a");
  EXPECT_EQ(fake.cancel(3), kNothing);               // waiting
  EXPECT_EQ(fake.cancel(1), (Words{"assign 4 a"}));  // running
  EXPECT_EQ(fake.cancel(1), kNothing);               // already ended: no effect
  EXPECT_EQ(fake.finish(1), kNothing);
  EXPECT_EQ(fake.finish(4), kNothing);
  EXPECT_EQ(fake.model("a").n_running, 0u);
  fake.arrive(5, "b");
  fake.arrive(6, "c");
  fake.cancel(6);  // before its load
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 5 b"}));
  EXPECT_EQ(fake.n_loads("c"), 0u);
}

TEST(Planner, LoadContinuesWithoutItsClient) {
  Fake fake(options_of(1000));
  fake.arrive(1, "a", {.keep_alive = seconds(60)});
  EXPECT_EQ(fake.cancel(1), kNothing);
  EXPECT_EQ(fake.model("a").phase, Phase::kLoading);
  EXPECT_EQ(fake.loaded("a"), kNothing);
  EXPECT_EQ(fake.model("a").expires_at, seconds(60));
  EXPECT_EQ(fake.after(seconds(59)), kNothing);
  EXPECT_EQ(fake.arrive(2, "a"), (Words{"assign 2 a"}));
  EXPECT_EQ(fake.n_loads("a"), 1u);
}

TEST(Planner, UnloadsLoadWithoutClientAndSession) {
  Fake fake(options_of(1000));
  fake.arrive(1, "a", {.keep_alive = Duration::zero()});
  fake.cancel(1);
  EXPECT_EQ(fake.loaded("a"), (Words{"unload a"}));
}

TEST(Planner, FailedLoadFailsWaitingRequestsAndIsRetried) {
  Fake fake(options_of(1000));
  fake.arrive(1, "a");
  fake.arrive(2, "a");
  fake.arrive(3, "b");
  EXPECT_EQ(fake.load_failed("a", {false, "bad tensor"}),
            (Words{"fail 1 500 bad tensor", "fail 2 500 bad tensor", "unload a", "load b 110"}));
  EXPECT_EQ(fake.arrive(4, "a"), kNothing);
  EXPECT_EQ(fake.gone("a"), kNothing);  // b is loading
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 3 b", "load a 110"}));
  EXPECT_EQ(fake.gone("a"), (Words{"fail 4 500 model runner process has terminated: signal 9"}));
}

TEST(Planner, LoadWithoutProgressTimesOut) {
  Options options = options_of(1000);
  options.load_timeout = seconds(10);
  Fake fake(options);
  fake.arrive(1, "a");
  EXPECT_EQ(fake.planner.wakes_at(), seconds(10));
  EXPECT_EQ(fake.after(seconds(9)), kNothing);
  fake.progress("a", 5);
  EXPECT_EQ(fake.planner.wakes_at(), seconds(19));
  fake.now += seconds(9);
  fake.progress("a", 5);  // not more than before
  EXPECT_EQ(fake.after(seconds(1)),
            (Words{"fail 1 500 timed out waiting for the model runner to start - no progress for "
                   "10 s",
                   "unload a"}));
  EXPECT_EQ(fake.loaded("a"), kNothing);  // too late
  EXPECT_EQ(fake.model("a").phase, Phase::kUnloading);
  fake.gone("a");
  EXPECT_EQ(fake.planner.wakes_at(), std::nullopt);

  options.load_timeout = Duration::zero();
  Fake unlimited(options);
  unlimited.arrive(1, "a");
  EXPECT_EQ(unlimited.planner.wakes_at(), std::nullopt);
}

TEST(Planner, ListsModelsByLatestExpiry) {
  Fake fake(options_of(1000));
  fake.have(1, "a", {.keep_alive = minutes(1)});
  fake.have(2, "b", {.keep_alive = kForever});
  fake.have(3, "c", {.keep_alive = minutes(2), .is_embedding = true});
  fake.report("c", 120, 20);
  fake.arrive(4, "c");
  const Snapshot all = fake.planner.snapshot();
  ASSERT_EQ(all.models.size(), 3u);
  EXPECT_EQ(all.models[0].key, "b");
  EXPECT_EQ(all.models[0].expires_at, kNever);
  EXPECT_EQ(all.models[1].name, "name-c");
  EXPECT_EQ(all.models[1].n_running, 1u);
  EXPECT_EQ(all.models[1].held_bytes, 120u);
  EXPECT_TRUE(all.models[1].is_embedding);
  EXPECT_EQ(all.models[2].expires_at, minutes(1));
  EXPECT_EQ(all.granted_bytes, 330u);
}

TEST(Planner, KeepsLabelOfTheRequestThatCausedTheLoad) {
  Fake fake(options_of(1000));
  fake.have(1, "a", {.label = "first"});
  fake.have(2, "a", {.label = "second"});
  EXPECT_EQ(fake.model("a").label, "first");
}

TEST(Planner, KeysIdentifyRunners) {
  EXPECT_EQ(runner_key({.path = "/m/a"}), "/m/a");
  const std::string adapted = runner_key({.path = "/m/a", .adapters = {"/m/x"}});
  const std::vector<std::string> others = {
      runner_key({.path = "/m/a", .adapters = {"/m/y"}}),
      runner_key({.path = "/m/a", .projectors = {"/m/x"}}),
      runner_key({.path = "/m/a", .drafts = {"/m/x"}}),
      runner_key({.path = "/m/a", .adapters = {"/m/x", "/m/x"}}),
      runner_key({.path = "/m/a", .adapters = {"/m/x\nadapter 4 /m/x"}}),
      runner_key({.path = "/m/a", .adapters = {"/m/x"}, .options = {"kv=q8_0"}}),
      runner_key({.path = adapted}),
      runner_key({.path = "/m/a\nadapter 4 /m/x"})};
  for (const std::string& other : others) EXPECT_NE(other, adapted);
}

}  // namespace
}  // namespace billow::scheduler
