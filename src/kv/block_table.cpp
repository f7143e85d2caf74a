#include "kv/block_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "kv/cache.h"

namespace billow::kv {

BlockTable::BlockTable(Cache& cache) : cache_(&cache), groups_(cache.layout().groups.size()) {}

BlockTable::~BlockTable() { clear(); }

BlockTable::BlockTable(BlockTable&& other) noexcept
    : cache_(other.cache_),
      groups_(std::exchange(other.groups_, {})),
      n_positions_(std::exchange(other.n_positions_, 0)),
      gap_begin_(std::exchange(other.gap_begin_, 0)),
      gap_end_(std::exchange(other.gap_end_, 0)) {}

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

void BlockTable::prepare_next() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<BlockId>& blocks = groups_[g].blocks;
    if (!blocks.empty()) cache_->pool(g).prepare(blocks.back());
  }
}

// Blocks [begin, end) of a group, as far as there are any.
void BlockTable::forget(size_t group, size_t begin, size_t end) {
  std::vector<BlockId>& blocks = groups_[group].blocks;
  for (size_t i = begin; i < std::min(end, blocks.size()); ++i) {
    if (blocks[i] == kNoBlock) continue;
    cache_->pool(group).give_back(std::exchange(blocks[i], kNoBlock));
  }
}

void BlockTable::forget_before_window(size_t next) {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const size_t window = cache_->layout().groups[g].window;
    if (window == 0 || next + 1 <= window) continue;
    const size_t n_unseen = (next + 1 - window) / kBlockPositions;
    forget(g, groups_[g].n_forgotten, n_unseen);
    groups_[g].n_forgotten = std::max(groups_[g].n_forgotten, n_unseen);
  }
}

void BlockTable::open_gap(size_t begin, size_t end) {
  BILLOW_CHECK(begin <= end && end >= gap_end_ && (gap_end_ == 0 || begin == gap_begin_));
  gap_begin_ = begin;
  gap_end_ = end;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const bool windowed = cache_->layout().groups[g].window != 0;
    const size_t whole_from = (begin + kBlockPositions - 1) / kBlockPositions;
    forget(g, windowed ? 0 : whole_from, end / kBlockPositions);
  }
}

void BlockTable::adopt(size_t group, std::vector<BlockId> blocks) {
  GroupBlocks& own = groups_[group];
  BILLOW_CHECK(own.blocks.empty());
  own.blocks = std::move(blocks);
  for (const BlockId block : own.blocks)
    if (block != kNoBlock) cache_->pool(group).share(block);
  while (own.n_forgotten < own.blocks.size() && own.blocks[own.n_forgotten] == kNoBlock)
    ++own.n_forgotten;
  n_positions_ = own.blocks.size() * kBlockPositions;
}

void BlockTable::clear() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const BlockId block : groups_[g].blocks) {
      if (block != kNoBlock) cache_->pool(g).give_back(block);
    }
    groups_[g] = {};
  }
  n_positions_ = 0;
  gap_begin_ = 0;
  gap_end_ = 0;
}

}  // namespace billow::kv
