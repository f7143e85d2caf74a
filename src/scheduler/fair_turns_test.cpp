#include "scheduler/fair_turns.h"

#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <random>
#include <string>

namespace billow::scheduler {
namespace {

const auto kNobody = [](const std::string&) { return false; };
const auto kEverybody = [](const std::string&) { return true; };

// Returns the work of two tenants that always have requests. `corrects`: the expected costs are
// wrong.
std::array<double, 2> work_of(unsigned seed, std::array<double, 2> weights, bool corrects) {
  std::mt19937 random(seed);
  FairTurns turns;
  const std::array<std::string, 2> names = {"ann", "bob"};
  for (const std::string& name : names) turns.join(name, kEverybody);
  std::array<double, 2> work{};
  for (int i = 0; i < 2000; ++i) {
    const size_t next = turns.account(names[0]) <= turns.account(names[1]) ? 0 : 1;
    // The requests of one tenant are ten times as long.
    const double cost = static_cast<double>(1 + random() % 100) * (next == 0 ? 10.0 : 1.0);
    const double expected = corrects ? 50.0 : cost;
    turns.begin(names[next], expected / weights[next]);
    turns.end(names[next], expected / weights[next], cost / weights[next]);
    work[next] += cost;
  }
  return work;
}

TEST(FairTurns, GivesEqualWork) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    for (const bool corrects : {false, true}) {
      const auto [ann, bob] = work_of(seed, {1.0, 1.0}, corrects);
      EXPECT_NEAR(ann, bob, 2000.0) << seed;  // two long requests
      EXPECT_GT(ann, 20'000.0);
    }
  }
}

TEST(FairTurns, GivesWorkByWeight) {
  const auto [ann, bob] = work_of(1, {3.0, 1.0}, true);
  EXPECT_NEAR(ann / bob, 3.0, 0.2);
}

TEST(FairTurns, GivesNothingForTimeWithoutRequests) {
  FairTurns turns;
  turns.join("ann", kEverybody);
  for (int i = 0; i < 100; ++i) {
    turns.begin("ann", 10.0);
    turns.end("ann", 10.0, 10.0);
  }
  turns.join("bob", kEverybody);
  EXPECT_EQ(turns.account("bob"), 990.0);  // where the last request of ann began
  EXPECT_EQ(turns.account("ann"), 1000.0);
}

TEST(FairTurns, CountsExpectedCostsWhileRequestsRun) {
  FairTurns turns;
  turns.join("ann", kEverybody);
  turns.begin("ann", 30.0);
  turns.begin("ann", 70.0);
  EXPECT_EQ(turns.account("ann"), 100.0);
  turns.end("ann", 30.0, 5.0);
  EXPECT_EQ(turns.account("ann"), 75.0);
  turns.end("ann", 70.0, 80.0);
  EXPECT_EQ(turns.account("ann"), 85.0);
}

// Expected costs can be much too high. A tenant that comes later must not wait until the others
// have done as much work.
TEST(FairTurns, ExpectedCostsOfOthersDelayNoTenantThatJoins) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    FairTurns turns;
    turns.join("ann", kEverybody);
    std::deque<double> running;  // the expected costs of ann's requests, in 4 places
    const size_t n_begun = 4 + random() % 100;
    for (size_t i = 0; i < n_begun; ++i) {
      if (running.size() == 4) {
        turns.end("ann", running.front(), static_cast<double>(1 + random() % 20));
        running.pop_front();
      }
      running.push_back(static_cast<double>(1 + random() % 8000));
      turns.begin("ann", running.back());
    }
    turns.join("bob", kEverybody);
    for (const double expected : running) turns.end("ann", expected, 10.0);
    EXPECT_LE(turns.account("bob"), turns.account("ann")) << seed;
    EXPECT_GE(turns.account("bob"), turns.account("ann") - 5 * 20) << seed;  // ann's last requests
  }
}

TEST(FairTurns, KeepsDebtsAndForgetsTenantsWithoutThem) {
  FairTurns turns;
  turns.join("ann", kNobody);
  turns.begin("ann", 100.0);
  turns.end("ann", 100.0, 100.0);
  turns.join("bob", kNobody);
  EXPECT_EQ(turns.account("ann"), 100.0);
  turns.join("ann", kNobody);
  EXPECT_EQ(turns.account("ann"), 100.0) << "a tenant cannot leave and come back without its debt";
  FairTurns fresh;
  EXPECT_TRUE(fresh.empty());
  fresh.join("ann", kNobody);
  fresh.join("bob", kNobody);
  fresh.join("bob", kNobody);
  EXPECT_EQ(fresh.account("ann"), 0.0);
}

}  // namespace
}  // namespace billow::scheduler
