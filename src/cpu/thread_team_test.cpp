#include "cpu/thread_team.h"

#include <gtest/gtest.h>
#include <time.h>

#include <chrono>
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

TEST(ThreadTeam, SleepsWhenIdle) {
  ThreadTeam team(4);
  team.run([](int) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  timespec before{};
  timespec after{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  const double used_ms = static_cast<double>(after.tv_sec - before.tv_sec) * 1e3 +
                         static_cast<double>(after.tv_nsec - before.tv_nsec) * 1e-6;
  EXPECT_LT(used_ms, 50);
}

}  // namespace
}  // namespace billow::cpu
