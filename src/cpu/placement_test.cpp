#include "cpu/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "cpu/sample_machine.h"

namespace billow::cpu {
namespace {

std::vector<int> numbers(int begin, int end) {
  std::vector<int> made(static_cast<size_t>(end - begin));
  std::iota(made.begin(), made.end(), begin);
  return made;
}

// Two nodes with 4 cores of two threads each: the second threads have the numbers from 8 on.
void add_two_nodes(const SampleMachine& machine) {
  machine.add("/sys/devices/system/node/has_cpu", "0-1\n");
  machine.add("/sys/devices/system/node/node0/cpulist", "0-3,8-11\n");
  machine.add("/sys/devices/system/node/node1/cpulist", "4-7,12-15\n");
  for (int cpu = 0; cpu < 16; ++cpu) {
    machine.add(
        "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list",
        std::to_string(cpu % 8) + "," + std::to_string(cpu % 8 + 8) + "\n");
  }
}

TEST(Placement, ReadsNodesAndTheirUsableProcessors) {
  const SampleMachine machine;
  add_two_nodes(machine);
  const std::vector<Node> all = nodes_of(numbers(0, 16), machine.root());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].cpus, (std::vector<int>{0, 1, 2, 3, 8, 9, 10, 11}));
  EXPECT_EQ(all[1].id, 1);
  EXPECT_EQ(all[1].n_cores, 4u);
  const std::vector<Node> some = nodes_of({0, 8, 4, 5, 12}, machine.root());
  ASSERT_EQ(some.size(), 2u);
  EXPECT_EQ(some[0].cpus, (std::vector<int>{0, 8}));
  EXPECT_EQ(some[0].n_cores, 1u);
  EXPECT_EQ(some[1].n_cores, 2u);
  EXPECT_EQ(nodes_of({1, 2}, machine.root()).size(), 1u);
  EXPECT_TRUE(nodes_of(numbers(0, 16), "/no/such/folder").empty());
}

TEST(Placement, DividesMembersByTheCoresOfNodes) {
  const std::vector<Node> nodes = {{.id = 0, .cpus = {0, 1, 2, 3}, .n_cores = 4},
                                   {.id = 1, .cpus = {4, 5}, .n_cores = 2}};
  for (size_t n = 1; n <= 6; ++n) {
    const std::vector<Place> places = place_members(nodes, n);
    ASSERT_EQ(places.size(), n);
    size_t n_first = 0;
    for (const Place& place : places) {
      EXPECT_EQ(place.cpus, nodes[static_cast<size_t>(place.node)].cpus);
      n_first += place.node == 0 ? 1 : 0;
    }
    EXPECT_EQ(n_first, n * 4 / 6) << n;
    EXPECT_TRUE(std::ranges::is_sorted(places, {}, &Place::node))
        << "members of a node are adjacent";
  }
}

TEST(Placement, BindsNoMemberIfThatCannotHelp) {
  const Node node{.id = 0, .cpus = {0, 1, 2, 3}, .n_cores = 4};
  EXPECT_TRUE(place_members({}, 2).empty());
  EXPECT_TRUE(place_members({node}, 2).empty());
  EXPECT_TRUE(place_members({node, node}, 9).empty()) << "more members than cores";
}

}  // namespace
}  // namespace billow::cpu
