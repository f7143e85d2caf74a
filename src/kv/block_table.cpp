#include "kv/block_table.h"

#include <algorithm>
#include <utility>

#include "kv/cache.h"

namespace billow::kv {

BlockTable::BlockTable(Cache& cache) : cache_(&cache), groups_(cache.layout().groups.size()) {}

BlockTable::~BlockTable() { clear(); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : cache_(other.cache_),
      groups_(std::exchange(other.groups_, {})),
      n_positions_(std::exchange(other.n_positions_, 0)) {}

bool BlockTable::grow(size_t n_positions) {
  const size_t n_blocks = (n_positions + kBlockPositions - 1) / kBlockPositions;
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<BlockId>& blocks = groups_[g].blocks;
    while (blocks.size() < n_blocks) {
      const BlockId last = blocks.empty() ? kNoBlock : blocks.back();
      const std::optional<BlockId> block = cache_->pool(g).take(last);
      if (!block) return false;
      blocks.push_back(*block);
    }
  }
  n_positions_ = std::max(n_positions_, n_blocks * kBlockPositions);
  return true;
}

void BlockTable::forget_before_window(size_t next) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const size_t window = cache_->layout().groups[g].window;
    if (window == 0 || next + 1 <= window) continue;
    const size_t n_unseen =
        std::min((next + 1 - window) / kBlockPositions, groups_[g].blocks.size());
    for (size_t& i = groups_[g].n_forgotten; i < n_unseen; ++i) {
      cache_->pool(g).give_back(groups_[g].blocks[i]);
      groups_[g].blocks[i] = kNoBlock;
    }
  }
}

void BlockTable::clear() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const BlockId block : groups_[g].blocks) {
      if (block != kNoBlock) cache_->pool(g).give_back(block);
    }
    groups_[g] = {};
  }
  n_positions_ = 0;
}

}  // namespace billow::kv
