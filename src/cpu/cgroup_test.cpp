#include "cpu/cgroup.h"

#include <gtest/gtest.h>

namespace billow::cpu {
namespace {

TEST(Cgroup, FindsTheGroupOfAVersionAndController) {
  const std::string both =
      "12:memory:/system.slice/a:b.service\n4:cpu,cpuacct:/cpus\n1:name=systemd:/init\n0::/two\n";
  EXPECT_EQ(group_path(both, "memory"), "/system.slice/a:b.service");
  EXPECT_EQ(group_path(both, "cpuacct"), "/cpus");
  EXPECT_EQ(group_path(both, "cpu"), "/cpus");
  EXPECT_EQ(group_path(both, ""), "/two");
  EXPECT_EQ(group_path(both, "pids"), "");
  EXPECT_EQ(group_path("0::/\n", ""), "/");
  EXPECT_EQ(group_path("0::/only.two\n", "memory"), "");
  EXPECT_EQ(group_path("", ""), "");
  EXPECT_EQ(group_path("rubbish\nmore:rubbish", ""), "");
}

}  // namespace
}  // namespace billow::cpu
