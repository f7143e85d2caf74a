#include "cpu/thread_team.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <atomic>
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

// Stops one thread in a signal handler, as a busy machine stops a thread that gets no processor.
class StoppedThread {
 public:
  // Returns when the thread is stopped.
  explicit StoppedThread(pthread_t thread) {
    struct sigaction action{};
    action.sa_handler = [](int) {
      is_stopped = true;
      while (is_stopped) ::poll(nullptr, 0, 1);
    };
    EXPECT_EQ(::sigaction(SIGUSR1, &action, &before_), 0);
    EXPECT_EQ(pthread_kill(thread, SIGUSR1), 0);
    while (!is_stopped) std::this_thread::yield();
  }
  ~StoppedThread() {
    is_stopped = false;
    EXPECT_EQ(::sigaction(SIGUSR1, &before_, nullptr), 0);
  }

 private:
  static inline std::atomic<bool> is_stopped{false};
  struct sigaction before_{};
};

// If a region waited for the stopped member, this test would not end.
TEST(ThreadTeam, DividedWorkDoesNotWaitForLateMembers) {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
  GTEST_SKIP() << "ThreadSanitizer delivers no signal to a thread that waits";
#endif
#endif
  ThreadTeam team(3);
  std::vector<pthread_t> threads(3);
  team.run([&](int member) { threads[static_cast<size_t>(member)] = pthread_self(); });
  std::vector<int> touched(100);
  std::vector<int> calls(3);
  const auto touch = [&](size_t begin, size_t end, int member) {
    ++calls[static_cast<size_t>(member)];
    for (size_t i = begin; i < end; ++i) ++touched[i];
  };
  for (int round = 0; round < 3; ++round) {
    {
      const StoppedThread stopped(threads[2]);
      for (int region = 0; region < 10; ++region) {
        team.for_pieces(touched.size(), 4, touch);
        team.for_shares(touched.size(), touch);
      }
      EXPECT_EQ(calls[2], 0);
    }
    team.run([&](int member) { touched[static_cast<size_t>(member)] += 0; });  // all three again
  }
  for (const int count : touched) EXPECT_EQ(count, 60);
}

// Regions so short that members are often late. Their work is on the stack of the caller.
TEST(ThreadTeam, LateMembersDoNothingInLaterRegions) {
  ThreadTeam team(8);
  for (unsigned region = 0; region < 3000; ++region) {
    const size_t n = 1 + region % 11;
    std::vector<int> touched(n);
    const auto touch = [&](size_t begin, size_t end, int) {
      for (size_t i = begin; i < end; ++i) ++touched[i];
    };
    std::vector<int> calls(8);
    if (region % 3 == 0) team.for_pieces(n, 1, touch);
    if (region % 3 == 1) team.for_shares(n, touch);
    if (region % 3 == 2) team.run([&](int member) { ++calls[static_cast<size_t>(member)]; });
    for (const int count : touched) ASSERT_EQ(count, region % 3 == 2 ? 0 : 1);
    for (const int count : calls) ASSERT_EQ(count, region % 3 == 2 ? 1 : 0);
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
