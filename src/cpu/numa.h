// Memory of machines with several NUMA nodes. Memory that the threads of one node read is put on
// that node. Memory that any thread reads is spread over the nodes, so that each node serves a part
// of it. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace billow::cpu {

// Returns the numbers of a kernel list such as "0-2,5"; none if the text is not such a list.
std::vector<int> numbers_of_list(const std::string& list);

// Returns whether several nodes have memory on this machine.
bool has_several_nodes();

// Asks the system to spread the pages of [data, data + n_bytes) over this machine's nodes. Does
// nothing if there is one node, if the process has a memory policy (numactl), or if the system
// refuses. Pages that are in use stay where they are. REQUIRES: the memory is aligned to a page.
void spread_over_nodes(void* data, size_t n_bytes);

// Asks the system for pages of one node, and for others only if that node has no free memory. Does
// nothing if the process has a memory policy, or if the system refuses. REQUIRES: as above, and
// 0 <= node < 1024.
void put_on_node(void* data, size_t n_bytes, int node);

}  // namespace billow::cpu
