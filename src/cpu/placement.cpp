#include "cpu/placement.h"

#include <sched.h>

#include <algorithm>
#include <set>

#include "cpu/cgroup.h"
#include "cpu/numa.h"

namespace billow::cpu {
namespace {

std::vector<int> allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  return cpus;
}

// Two hardware threads of one core have the same list of siblings.
size_t physical_cores(const std::vector<int>& cpus, const std::string& root) {
  std::set<std::string> cores;
  size_t n_unknown = 0;
  for (const int cpu : cpus) {
    std::string siblings = first_line(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                      "/topology/thread_siblings_list");
    if (siblings.empty()) {
      ++n_unknown;
    } else {
      cores.insert(std::move(siblings));
    }
  }
  return cores.size() + n_unknown;
}

}  // namespace

std::vector<Node> nodes_of(const std::vector<int>& allowed, const std::string& root) {
  const std::string folder = root + "/sys/devices/system/node/";
  std::vector<Node> nodes;
  for (const int id : numbers_of_list(first_line(folder + "has_cpu"))) {
    Node node{.id = id, .cpus = {}};
    for (const int cpu :
         numbers_of_list(first_line(folder + "node" + std::to_string(id) + "/cpulist")))
      if (std::ranges::find(allowed, cpu) != allowed.end()) node.cpus.push_back(cpu);
    node.n_cores = physical_cores(node.cpus, root);
    if (!node.cpus.empty()) nodes.push_back(std::move(node));
  }
  return nodes;
}

std::vector<std::vector<int>> place_members(const std::vector<Node>& nodes, size_t n_members) {
  size_t n_cores = 0;
  for (const Node& node : nodes) n_cores += node.n_cores;
  if (nodes.size() < 2 || n_members > n_cores) return {};
  std::vector<std::vector<int>> places;
  size_t n_cores_before = 0;
  for (const Node& node : nodes) {
    n_cores_before += node.n_cores;
    places.resize(n_members * n_cores_before / n_cores, node.cpus);
  }
  return places;
}

std::vector<std::vector<int>> place_members(size_t n_members) {
  return place_members(nodes_of(allowed_cpus()), n_members);
}

}  // namespace billow::cpu
