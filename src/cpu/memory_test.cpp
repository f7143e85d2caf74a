#include "cpu/memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "cpu/sample_machine.h"

namespace billow::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

// A machine of 1000 MiB, with the files that a test adds.
class Machine : public SampleMachine {
 public:
  Machine() { add("/proc/meminfo", "MemTotal:        1024000 kB\nMemFree:           1000 kB\n"); }
  size_t usable() const { return usable_memory(root()); }
};

TEST(Memory, ReadsTheTextsOfTheKernel) {
  EXPECT_EQ(memory_of_meminfo("MemTotal:       24684084 kB\nMemFree: 1 kB\n", "MemTotal"),
            size_t{24684084} * 1024);
  EXPECT_EQ(memory_of_meminfo("MemFree: 1 kB\nMemTotal: 7 kB", "MemTotal"), 7u * 1024);
  for (const char* bad : {"", "MemTotal:", "MemTotal: x kB", "MemTotal: 99999999999999999999 kB"})
    EXPECT_EQ(memory_of_meminfo(bad, "MemTotal"), SIZE_MAX) << bad;
  EXPECT_EQ(memory_of_limit("536870912"), 512 * kMiB);
  EXPECT_EQ(memory_of_limit("0"), 0u);
  for (const char* none : {"max", "", "-1", "18446744073709551616"})
    EXPECT_EQ(memory_of_limit(none), SIZE_MAX) << none;
}

TEST(Memory, EqualsPhysicalMemoryWithoutGroupLimit) {
  Machine machine;
  EXPECT_EQ(machine.usable(), 1000 * kMiB);
  machine.add("/proc/self/cgroup", "4:memory:/a\n0::/b\n");
  machine.add("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  machine.add("/sys/fs/cgroup/b/memory.max", "max\n");
  EXPECT_EQ(machine.usable(), 1000 * kMiB);
}

TEST(Memory, IsTheMinLimitOfAllParentGroups) {
  Machine machine;
  machine.add("/proc/self/cgroup", "0::/user.slice/job\n");
  machine.add("/sys/fs/cgroup/user.slice/job/memory.max", std::to_string(400 * kMiB));
  EXPECT_EQ(machine.usable(), 400 * kMiB);
  machine.add("/sys/fs/cgroup/user.slice/memory.max", std::to_string(300 * kMiB));
  EXPECT_EQ(machine.usable(), 300 * kMiB);
  machine.add("/sys/fs/cgroup/memory.max", std::to_string(200 * kMiB));  // the group of a container
  EXPECT_EQ(machine.usable(), 200 * kMiB);
}

TEST(Memory, ReadsBothVersionsTogether) {
  Machine machine;
  machine.add("/proc/self/cgroup", "4:memory:/outside/box\n0::/outside\n");
  machine.add("/sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(500 * kMiB) + "\n");
  EXPECT_EQ(machine.usable(), 500 * kMiB);
  machine.add("/sys/fs/cgroup/memory/outside/box/memory.limit_in_bytes",
              std::to_string(250 * kMiB));
  EXPECT_EQ(machine.usable(), 250 * kMiB);
  machine.add("/sys/fs/cgroup/unified/outside/memory.max", std::to_string(125 * kMiB));
  EXPECT_EQ(machine.usable(), 125 * kMiB);
}

TEST(Memory, RespectsTheCommitLimitWithoutOvercommit) {
  Machine machine;
  machine.add("/proc/meminfo", "MemTotal:        1024000 kB\nCommitLimit:      614400 kB\n");
  for (const char* more : {"", "0\n", "1\n"}) {
    machine.add("/proc/sys/vm/overcommit_memory", more);
    EXPECT_EQ(machine.usable(), 1000 * kMiB) << more;
  }
  machine.add("/proc/sys/vm/overcommit_memory", "2\n");
  EXPECT_EQ(machine.usable(), 600 * kMiB);
  machine.add("/proc/meminfo", "MemTotal:        1024000 kB\nCommitLimit:     9999999 kB\n");
  EXPECT_EQ(machine.usable(), 1000 * kMiB) << "the commit limit includes swap";
}

TEST(Memory, OfThisMachineIsPositiveAndAtMostPhysicalMemory) {
  const auto physical =
      static_cast<size_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  EXPECT_GT(usable_memory(), kMiB);
  EXPECT_LE(usable_memory(), physical);
}

}  // namespace
}  // namespace billow::cpu
