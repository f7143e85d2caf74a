#include "cpu/placement.h"

#include <algorithm>
#include <utility>

#include "cpu/cgroup.h"
#include "cpu/cores.h"
#include "cpu/numa.h"

namespace billow::cpu {

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

std::vector<Place> place_members(const std::vector<Node>& nodes, size_t n_members) {
  size_t n_cores = 0;
  for (const Node& node : nodes) n_cores += node.n_cores;
  if (nodes.size() < 2 || n_members > n_cores) return {};
  std::vector<Place> places;
  size_t n_cores_before = 0;
  for (const Node& node : nodes) {
    n_cores_before += node.n_cores;
    places.resize(n_members * n_cores_before / n_cores, {.node = node.id, .cpus = node.cpus});
  }
  return places;
}

std::vector<Place> place_members(size_t n_members) {
  return place_members(nodes_of(allowed_cpus()), n_members);
}

}  // namespace billow::cpu
