#include "cpu/shares.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <queue>
#include <random>
#include <thread>
#include <vector>

#include "cpu/join_tree.h"

namespace billow::cpu {
namespace {

TEST(Shares, ReturnsEachItemOnceForAnyOrderOfTakes) {
  std::mt19937 random(1);
  for (const size_t n_members : {1u, 2u, 3u, 63u, 64u, 65u, 128u, 200u}) {
    Shares shares(n_members);
    for (const size_t n : {0u, 1u, 2u, 7u, 64u, 1001u, 5000u}) {
      shares.reset(n);
      std::vector<int> taken(n);
      std::vector<size_t> working(n_members);
      for (size_t i = 0; i < n_members; ++i) working[i] = i;
      while (!working.empty()) {
        const size_t i = random() % working.size();
        const Shares::Run run = shares.take(working[i]);
        if (run.begin == run.end) working.erase(working.begin() + static_cast<long>(i));
        for (size_t item = run.begin; item < run.end; ++item) ++taken[item];
      }
      for (const int count : taken) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Shares, MembersBeginInTheirOwnRange) {
  Shares shares(4);
  for (int region = 0; region < 2; ++region) {
    shares.reset(400);
    for (const size_t member : {2u, 0u, 3u, 1u}) {
      const Shares::Run run = shares.take(member);
      EXPECT_EQ(run.begin, 100 * member);
      EXPECT_EQ(run.end, 100 * member + 34);
    }
  }
}

// A simulation in virtual time. Each item takes a member 1 unit of time, times the member's
// slowness. Each take costs 0.05 units, as in a decode where an item is 10 us of work.
struct Simulation {
  double end = 0.0;  // when the last item is done
  size_t n_takes = 0;
  size_t max_takes = 0;  // of one member
  size_t n_far = 0;      // items of a member of the other node; each node has half of the members
};

Simulation simulate(const std::vector<double>& slowness, size_t n_items) {
  constexpr double kTake = 0.05;
  Shares shares(slowness.size());
  shares.reset(n_items);
  using Event = std::pair<double, size_t>;  // when a member is free
  std::priority_queue<Event, std::vector<Event>, std::greater<>> free;
  for (size_t i = 0; i < slowness.size(); ++i) free.emplace(0.0, i);
  std::vector<size_t> n_takes(slowness.size());
  Simulation result;
  while (!free.empty()) {
    const auto [time, member] = free.top();
    free.pop();
    const Shares::Run run = shares.take(member);
    if (run.begin == run.end) continue;
    ++n_takes[member];
    const size_t half = n_items / 2;
    const size_t n_first_half = std::min(run.end, half) - std::min(run.begin, half);
    result.n_far +=
        member < slowness.size() / 2 ? run.end - run.begin - n_first_half : n_first_half;
    const double end = time + kTake + static_cast<double>(run.end - run.begin) * slowness[member];
    result.end = std::max(result.end, end);
    free.emplace(end, member);
  }
  for (const size_t n : n_takes) {
    result.n_takes += n;
    result.max_takes = std::max(result.max_takes, n);
  }
  return result;
}

// Members of the same speed finish together, and take few runs: about log(1.5) of their items.
TEST(Shares, EqualMembersFinishTogether) {
  for (const size_t n_members : {2u, 16u, 64u, 128u}) {
    for (const size_t per_member : {10u, 100u, 1000u}) {
      const Simulation found =
          simulate(std::vector<double>(n_members, 1.0), n_members * per_member);
      EXPECT_LE(found.max_takes, 20u);
      EXPECT_LT(found.end, static_cast<double>(per_member) + 1.0);
    }
  }
}

// Slow members delay the end by the run that they have already taken, and by little else.
TEST(Shares, OthersDoTheWorkOfSlowMembers) {
  std::mt19937 random(2);
  for (const size_t n_members : {16u, 64u, 128u}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<double> slowness(n_members, 1.0);
      double speed = 0.0;
      for (double& slow : slowness) {
        if (random() % 4 == 0) slow = 2.0;
        speed += 1.0 / slow;
      }
      const size_t n_items = n_members * 400;
      const double ideal = static_cast<double>(n_items) / speed;
      const Simulation found = simulate(slowness, n_items);
      EXPECT_LT(found.end, 1.12 * ideal);
      EXPECT_LT(found.n_takes, n_members * 40);
    }
  }
}

// Weights are on the node of the member whose range has them (nn/packed_weights.h).
TEST(Shares, MembersReadFewItemsOfTheOtherNode) {
  std::mt19937 random(4);
  std::uniform_real_distribution<double> slowness_of_member(1.0, 1.1);
  for (const size_t n_members : {16u, 64u, 128u}) {
    for (int round = 0; round < 20; ++round) {
      std::vector<double> slowness(n_members);
      for (double& slow : slowness) slow = slowness_of_member(random);
      const size_t n_items = n_members * 400;
      EXPECT_LT(simulate(slowness, n_items).n_far, n_items / 50) << n_members;
    }
  }
}

TEST(Shares, ThreadsTakeEachItemOnce) {
  constexpr size_t kMembers = 64;
  Shares shares(kMembers);
  for (int region = 0; region < 5; ++region) {
    constexpr size_t kItems = 20'000;
    shares.reset(kItems);
    std::vector<std::atomic<int>> taken(kItems);
    std::vector<std::thread> threads;
    for (size_t member = 0; member < kMembers; ++member) {
      threads.emplace_back([&, member] {
        for (Shares::Run run = shares.take(member); run.begin < run.end; run = shares.take(member))
          for (size_t i = run.begin; i < run.end; ++i) ++taken[i];
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::atomic<int>& count : taken) EXPECT_EQ(count, 1);
  }
}

TEST(JoinTree, FindsTheLastOfEachRound) {
  std::mt19937 random(3);
  for (const size_t n : {1u, 2u, 7u, 8u, 9u, 63u, 64u, 65u, 128u, 600u}) {
    JoinTree tree(n);
    std::vector<size_t> members(n);
    for (size_t i = 0; i < n; ++i) members[i] = i;
    for (int round = 0; round < 5; ++round) {
      std::ranges::shuffle(members, random);
      for (size_t i = 0; i < n; ++i) EXPECT_EQ(tree.arrive(members[i]), i + 1 == n) << n;
    }
  }
}

// The writes of one cache line happen one after the other. With one counter there would be as many
// as members.
TEST(JoinTree, WritesEachLineFewTimes) {
  EXPECT_EQ(JoinTree(8).n_levels(), 1u);
  EXPECT_EQ(JoinTree(63).n_levels(), 2u);   // at most 16 writes in sequence instead of 63
  EXPECT_EQ(JoinTree(127).n_levels(), 3u);  // at most 24 instead of 127
}

}  // namespace
}  // namespace billow::cpu
