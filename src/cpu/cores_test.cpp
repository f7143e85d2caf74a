#include "cpu/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>

#include "cpu/sample_machine.h"

namespace billow::cpu {
namespace {

TEST(Cores, ReadsTheQuotaOfACgroup) {
  EXPECT_EQ(cores_of_quota("200000 100000"), 2);
  EXPECT_EQ(cores_of_quota("150000 100000"), 2);
  EXPECT_EQ(cores_of_quota("50000 100000"), 1);
  EXPECT_EQ(cores_of_quota("max 100000"), 0);
  EXPECT_EQ(cores_of_quota(""), 0);
  EXPECT_EQ(cores_of_quota("-1 100000"), 0);
  EXPECT_EQ(cores_of_quota("100000 0"), 0);
}

TEST(Cores, RespectsQuotasOfBothVersionsAndParentGroups) {
  const SampleMachine machine;
  const int all = usable_cores(machine.root());
  EXPECT_GE(all, 1);
  machine.add("/proc/self/cgroup", "4:cpu,cpuacct:/a/b\n0::/c\n");
  machine.add("/sys/fs/cgroup/cpu/a/b/cpu.cfs_quota_us", "-1\n");
  machine.add("/sys/fs/cgroup/cpu/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(machine.root()), all);
  machine.add("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "150000\n");
  machine.add("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(machine.root()), std::min(all, 2));
  machine.add("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
  machine.add("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(usable_cores(machine.root()), all);
  machine.add("/sys/fs/cgroup/unified/c/cpu.max", "100000 100000\n");
  EXPECT_EQ(usable_cores(machine.root()), 1);
}

TEST(Cores, RespectsTheAffinityOfTheProcess) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_GE(usable_cores(), 1);
  EXPECT_LE(usable_cores(), CPU_COUNT(&before));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(usable_cores(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

}  // namespace
}  // namespace billow::cpu
