// Finds the last of several threads to arrive. Threads arrive in groups of 8, and the last of each
// group arrives for its group, and so on. So at most 8 threads write one cache line, and 128
// threads need three steps instead of 128 writes of one line, one after the other.
#pragma once

#include <atomic>
#include <cstddef>
#include <vector>

#include "cpu/cache_line.h"

namespace billow::cpu {

class JoinTree {
 public:
  static constexpr size_t kFanIn = 8;

  // Each of the members 0 to n_members - 1 arrives once per round.
  explicit JoinTree(size_t n_members) {
    for (size_t n = n_members; n > 1; n = (n + kFanIn - 1) / kFanIn) {
      level_begins_.push_back(n_nodes_);
      for (size_t first = 0; first < n; first += kFanIn)
        sizes_.push_back(static_cast<unsigned>(n - first < kFanIn ? n - first : kFanIn));
      n_nodes_ = sizes_.size();
    }
    nodes_ = std::vector<Node>(n_nodes_);
    for (size_t i = 0; i < n_nodes_; ++i) nodes_[i].n_missing = sizes_[i];
  }

  // Returns true for the last member of a round. All writes of all members before their arrivals
  // are then visible. The next round can begin after that. Thread-safe.
  bool arrive(size_t member) noexcept {
    for (const size_t begin : level_begins_) {
      member /= kFanIn;
      Node& node = nodes_[begin + member];
      if (node.n_missing.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
      node.n_missing.store(sizes_[begin + member], std::memory_order_relaxed);
    }
    return true;
  }

  size_t n_levels() const noexcept { return level_begins_.size(); }

 private:
  struct alignas(kCacheLine) Node {
    std::atomic<unsigned> n_missing{0};
  };

  size_t n_nodes_ = 0;
  std::vector<size_t> level_begins_;  // [level] index of its first node
  std::vector<unsigned> sizes_;       // [node] members or nodes that arrive at it
  std::vector<Node> nodes_;
};

}  // namespace billow::cpu
