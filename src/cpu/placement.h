// Which processors the threads of a team may use. On a machine with several NUMA nodes, each thread
// stays on one node, so that it keeps its share of the last cache and its rows of the weights. On
// other machines, threads run anywhere, because a bound thread waits if another program uses its
// processor.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace billow::cpu {

struct Node {
  int id = 0;
  std::vector<int> cpus;  // processors of the node that the process may use
  size_t n_cores = 0;     // physical cores among them
};

// Returns the nodes with usable processors, by id. `allowed`: processors that the process may use.
// `root` is the folder that contains /sys. Only reads the system; any thread.
std::vector<Node> nodes_of(const std::vector<int>& allowed, const std::string& root = "");

// Where a member of a team runs.
struct Place {
  int node = 0;           // id
  std::vector<int> cpus;  // processors that the member may use
};

// Returns the place of each member of a team. Adjacent members share a node, and the number of
// members on a node is in proportion to its cores. Empty: members run on any processor. This is so
// with a single node, and with more members than cores. Pure.
std::vector<Place> place_members(const std::vector<Node>& nodes, size_t n_members);

// The same for this machine and process.
std::vector<Place> place_members(size_t n_members);

}  // namespace billow::cpu
