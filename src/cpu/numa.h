// Memory of machines with several NUMA nodes: what all threads read is spread over the nodes, so
// that each node serves its share. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace billow::cpu {

// Node numbers of a kernel list such as "0-2,5"; what is not one gives no nodes.
std::vector<int> nodes_of_list(const std::string& list);

// Whether memory of this machine belongs to several nodes.
bool has_several_nodes();

// Asks for the pages of [data, data + n_bytes), not touched yet and aligned to a page, to be spread
// over the nodes of this machine. Nothing happens where there is one node, or the system refuses.
void spread_over_nodes(void* data, size_t n_bytes);

}  // namespace billow::cpu
