#include <gtest/gtest.h>

#include "scheduler/planner_fake.h"

namespace billow::scheduler {
namespace {

const Words kNothing;
const Asked kBulk = {.is_bulk = true};

Options options_of(uint64_t budget_bytes, size_t n_parallel) {
  Options options;
  options.budget_bytes = budget_bytes;
  options.n_parallel = n_parallel;
  return options;
}

TEST(PlannerBulk, RequestsThatPeopleWaitForGoFirst) {
  Fake fake(options_of(1000, 1));
  fake.arrive(1, "a", kBulk);
  fake.arrive(2, "a", kBulk);
  fake.arrive(3, "a");
  EXPECT_EQ(fake.loaded("a"), (Words{"assign 3 a"}));
  fake.arrive(4, "a");
  EXPECT_EQ(fake.finish(3), (Words{"assign 4 a"}));
  EXPECT_EQ(fake.finish(4), (Words{"assign 1 a"}));
  EXPECT_EQ(fake.finish(1), (Words{"assign 2 a"}));
}

TEST(PlannerBulk, PlacesStayFreeForOthers) {
  Fake fake(options_of(10'000, 8));
  fake.have(100, "a");
  for (RequestId id = 1; id <= 20; ++id) fake.arrive(id, "a", kBulk);
  EXPECT_EQ(fake.model("a").n_running, 6u);
  EXPECT_EQ(fake.arrive(30, "a"), (Words{"assign 30 a"}));
  EXPECT_EQ(fake.arrive(31, "a"), (Words{"assign 31 a"}));
  EXPECT_EQ(fake.arrive(32, "a"), kNothing);
  EXPECT_EQ(fake.finish(1), (Words{"assign 32 a"}));
  EXPECT_EQ(fake.finish(2), kNothing) << "two places stay free";
  EXPECT_EQ(fake.finish(3), kNothing);
  EXPECT_EQ(fake.finish(30), (Words{"assign 7 a"}));
}

TEST(PlannerBulk, OnePlaceServesBothInTurn) {
  Fake fake(options_of(1000, 1));
  fake.have(100, "a");
  EXPECT_EQ(fake.arrive(1, "a", kBulk), (Words{"assign 1 a"}));
  fake.arrive(2, "a", kBulk);
  EXPECT_EQ(fake.arrive(3, "a"), kNothing);
  EXPECT_EQ(fake.finish(1), (Words{"assign 3 a"}));
}

TEST(PlannerBulk, MemoryForOneMoreRequestStaysFree) {
  Fake fake(options_of(135, 8));  // KV of three requests, after the weights
  fake.have(100, "a");
  EXPECT_EQ(fake.arrive(1, "a", kBulk).back(), "assign 1 a");
  EXPECT_EQ(fake.arrive(2, "a", kBulk).back(), "assign 2 a");
  EXPECT_EQ(fake.arrive(3, "a", kBulk), kNothing);
  EXPECT_EQ(fake.arrive(4, "a").back(), "assign 4 a");
}

TEST(PlannerBulk, WaitForRequestsOfOtherModels) {
  Fake fake(options_of(1000, 8));
  fake.have(100, "a");
  EXPECT_EQ(fake.arrive(1, "b"), (Words{"load b 180"}));
  EXPECT_EQ(fake.arrive(2, "a", kBulk), kNothing);
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 1 b", "assign 2 a"}));
}

TEST(PlannerBulk, DoNotKeepAModelWhoseMemoryAnotherRequestNeeds) {
  Fake fake(options_of(130, 1));
  fake.have(100, "a");
  fake.arrive(1, "a", kBulk);
  fake.arrive(2, "a", kBulk);
  EXPECT_EQ(fake.arrive(3, "b"), kNothing);
  EXPECT_EQ(fake.finish(1), (Words{"unload a"}));
  EXPECT_EQ(fake.gone("a"), (Words{"load b 110"}));
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 3 b"}));
  EXPECT_EQ(fake.finish(3), (Words{"unload b"})) << "now the bulk request may load its model";
  EXPECT_EQ(fake.gone("b"), (Words{"load a 110"}));
}

TEST(PlannerBulk, ARequestKeepsTheModelThatBulkWorkWouldReplace) {
  Fake fake(options_of(130, 2));
  fake.have(100, "a");
  fake.arrive(1, "a");
  EXPECT_EQ(fake.arrive(2, "b", kBulk), kNothing) << "waits until a is idle";
  EXPECT_EQ(fake.arrive(3, "a").back(), "assign 3 a");
}

TEST(PlannerBulk, AQueueOfBulkRequestsDoesNotRefuseOthers) {
  Options options = options_of(1000, 1);
  options.n_max_queue = 2;
  Fake fake(options);
  fake.have(100, "a");
  for (RequestId id = 1; id <= 3; ++id) fake.arrive(id, "a", kBulk);
  EXPECT_EQ(fake.arrive(4, "a", kBulk), (Words{"refuse 4 503 " + std::string(kBusyText)}));
  EXPECT_EQ(fake.arrive(5, "a"), kNothing);
  EXPECT_EQ(fake.arrive(6, "a"), kNothing);
  EXPECT_EQ(fake.arrive(7, "a"), (Words{"refuse 7 503 " + std::string(kBusyText)}));
}

TEST(PlannerBulk, AModelWithBulkRequestsStaysLoaded) {
  Fake fake(options_of(1000, 1));
  fake.have(100, "a", {.keep_alive = std::chrono::seconds(1)});
  fake.arrive(1, "b");
  fake.arrive(2, "a", kBulk);
  EXPECT_EQ(fake.after(std::chrono::seconds(2)), kNothing);
  EXPECT_EQ(fake.loaded("b"), (Words{"assign 1 b", "assign 2 a"}));
}

}  // namespace
}  // namespace billow::scheduler
