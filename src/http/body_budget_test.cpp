#include "http/body_budget.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>
#include <vector>

#include "http/body_room.h"

namespace billow::http {
namespace {

constexpr uint64_t kMiB = 1 << 20;

TEST(BodyBudget, CountsAllLargeBodies) {
  BodyBudget budget(4 * kMiB);
  BodyBudget::Reservation a(budget);
  EXPECT_TRUE(a.grow_to(kFreeBodyBytes));
  EXPECT_EQ(budget.n_used_bytes(), 0u) << "small bodies are free";
  EXPECT_TRUE(a.grow_to(3 * kMiB));
  EXPECT_TRUE(a.grow_to(kMiB)) << "it already has more";
  EXPECT_EQ(budget.n_used_bytes(), 3 * kMiB);
  {
    BodyBudget::Reservation b(budget);
    EXPECT_FALSE(b.grow_to(2 * kMiB));
    EXPECT_TRUE(b.grow_to(kMiB));
    EXPECT_FALSE(a.grow_to(4 * kMiB));
    EXPECT_EQ(budget.n_used_bytes(), 4 * kMiB);
  }
  EXPECT_TRUE(a.grow_to(4 * kMiB)) << "the other reservation was released";
  EXPECT_FALSE(a.grow_to(UINT64_MAX));
}

TEST(BodyBudget, AMovedReservationKeepsItsBytes) {
  BodyBudget budget(4 * kMiB);
  BodyBudget::Reservation a(budget);
  ASSERT_TRUE(a.grow_to(2 * kMiB));
  {
    const BodyBudget::Reservation b = std::move(a);
    EXPECT_EQ(budget.n_used_bytes(), 2 * kMiB);
  }
  EXPECT_EQ(budget.n_used_bytes(), 0u);
  EXPECT_TRUE(BodyBudget::Reservation().grow_to(UINT64_MAX))
      << "a reservation without a budget has no limit";
}

TEST(BodyBudget, ManyThreadsNeverExceedIt) {
  BodyBudget budget(8 * kMiB);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&budget] {
      for (int k = 0; k < 2000; ++k) {
        BodyBudget::Reservation reservation(budget);
        for (uint64_t n = kMiB; n <= 4 * kMiB && reservation.grow_to(n); n += kMiB) {
          EXPECT_LE(budget.n_used_bytes(), budget.max_bytes());
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(budget.n_used_bytes(), 0u);
}

// For any piece sizes and refusals, the bytes in use stay within the limit, and at least one body
// completes.
TEST(BodyBudget, HoldsForBodiesThatGrowInParallel) {
  std::mt19937 random(5);
  for (int round = 0; round < 50; ++round) {
    BodyBudget budget(2 * kMiB);
    std::vector<Body> bodies(6);
    for (Body& body : bodies) body.reservation = BodyBudget::Reservation(budget);
    size_t n_whole = 0;
    while (!bodies.empty()) {
      const size_t i = random() % bodies.size();
      Body& body = bodies[i];
      const size_t n = std::min<size_t>(1 + random() % (100 << 10), kMiB - body.text.size());
      const bool has_room = make_room(body, n, kMiB);
      if (has_room) body.text.append(n, 'x');
      if (body.text.size() == kMiB) ++n_whole;
      if (!has_room || body.text.size() == kMiB) bodies.erase(bodies.begin() + static_cast<int>(i));
      size_t n_held = 0;
      for (const Body& one : bodies)
        if (one.text.size() > kFreeBodyBytes) n_held += one.text.size();
      ASSERT_LE(n_held, budget.max_bytes());
    }
    EXPECT_GE(n_whole, 1u);
    EXPECT_EQ(budget.n_used_bytes(), 0u);
  }
}

}  // namespace
}  // namespace billow::http
