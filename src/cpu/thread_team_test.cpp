#include "cpu/thread_team.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

namespace billow::cpu {
namespace {

TEST(ThreadTeam, RunsEachMemberOncePerRegion) {
  for (int n : {1, 2, 3, 8}) {
    ThreadTeam team(n);
    ASSERT_EQ(team.size(), n);
    std::vector<int> calls(static_cast<size_t>(n));
    for (int region = 0; region < 500; ++region) {
      team.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
    }
    for (const int count : calls) EXPECT_EQ(count, 500);
  }
}

// Far more threads than cores: members of a tree with two and three levels.
TEST(ThreadTeam, ManyMembersFinishEveryRegion) {
  for (const int n : {64, 128}) {
    ThreadTeam team(n);
    std::vector<int> calls(static_cast<size_t>(n));
    std::vector<int> touched(1000);
    for (int region = 0; region < 20; ++region) {
      team.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
      team.for_shares(touched.size(), [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) ++touched[i];
      });
    }
    for (const int count : calls) EXPECT_EQ(count, 20);
    for (const int count : touched) EXPECT_EQ(count, 20);
  }
}

TEST(ThreadTeam, BindsMembersToTheirProcessors) {
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &allowed)) --last;
  std::vector<int> any;
  for (int cpu = 0; cpu <= last; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) any.push_back(cpu);
  ThreadTeam team(
      3, {{.node = 0, .cpus = {last}}, {.node = 0, .cpus = {last}}, {.node = 1, .cpus = any}});
  EXPECT_TRUE(std::ranges::equal(team.nodes(), std::vector<int>{0, 0, 1}));
  std::vector<int> n_cpus(3);
  team.run([&](int member) {
    cpu_set_t mine;
    sched_getaffinity(0, sizeof mine, &mine);
    n_cpus[static_cast<size_t>(member)] = CPU_COUNT(&mine);
  });
  EXPECT_EQ(n_cpus, (std::vector<int>{CPU_COUNT(&allowed), 1, CPU_COUNT(&allowed)}));
}

TEST(ThreadTeam, PiecesCoverTheRangeExactlyOnce) {
  ThreadTeam team(3);
  for (const size_t n : {0u, 1u, 7u, 64u, 1001u}) {
    for (const size_t piece : {1u, 4u, 100u}) {
      std::vector<int> touched(n);
      team.for_pieces(n, piece, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) ++touched[i];
      });
      EXPECT_EQ(std::accumulate(touched.begin(), touched.end(), size_t{0}), n);
      for (const int count : touched) EXPECT_EQ(count, 1);
    }
  }
}

TEST(ThreadTeam, SharesCoverTheRangeExactlyOnce) {
  for (const int n_threads : {1, 3}) {
    ThreadTeam team(n_threads);
    for (const size_t n : {0u, 1u, 2u, 7u, 64u, 1001u}) {
      std::vector<int> touched(n);
      team.for_shares(n, [&](size_t begin, size_t end, int) {
        EXPECT_LT(begin, end);
        for (size_t i = begin; i < end; ++i) ++touched[i];
      });
      for (const int count : touched) EXPECT_EQ(count, 1);
    }
  }
}

// Returns the processor time that each thread has used.
std::vector<int64_t> processor_times(const std::vector<clockid_t>& clocks) {
  std::vector<int64_t> nanoseconds;
  for (const clockid_t clock : clocks) {
    timespec time{};
    EXPECT_EQ(clock_gettime(clock, &time), 0);
    nanoseconds.push_back(time.tv_sec * 1'000'000'000 + time.tv_nsec);
  }
  return nanoseconds;
}

// The threads of the team fall asleep and then use no processor time at all. On a busy machine they
// need longer to fall asleep, so there are several attempts.
TEST(ThreadTeam, UsesNoProcessorWhenIdle) {
  ThreadTeam team(4);
  std::vector<clockid_t> clocks(4);
  team.run([&](int member) {
    EXPECT_EQ(pthread_getcpuclockid(pthread_self(), &clocks[static_cast<size_t>(member)]), 0);
  });
  clocks.erase(clocks.begin());  // the caller's
  bool is_asleep = false;
  for (int i = 0; i < 100 && !is_asleep; ++i) {
    const std::vector<int64_t> before = processor_times(clocks);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    is_asleep = processor_times(clocks) == before;
  }
  EXPECT_TRUE(is_asleep);
}

}  // namespace
}  // namespace billow::cpu
