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
      draft_(std::exchange(other.draft_, {})),
      n_positions_(std::exchange(other.n_positions_, 0)),
      gap_begin_(std::exchange(other.gap_begin_, 0)),
      gap_end_(std::exchange(other.gap_end_, 0)) {}

bool BlockTable::grow(size_t n_positions) {
  const size_t n_blocks = (n_positions + kBlockPositions - 1) / kBlockPositions;
  for (size_t g = 0; g < groups_.size(); ++g) {
    std::vector<BlockId>& blocks = groups_[g].blocks;
    if (cache_->layout().states == g) {
      blocks.resize(std::max(blocks.size(), n_blocks), kNoBlock);
      continue;
    }
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

bool BlockTable::grow_states(size_t begin, size_t end, const TextMarks& marks) {
  const Layout& layout = cache_->layout();
  if (!layout.states) return true;
  const size_t group = *layout.states;
  std::vector<BlockId>& blocks = groups_[group].blocks;
  BILLOW_CHECK(begin < end && end <= blocks.size() * kBlockPositions);
  const size_t stride = layout.groups[group].state_stride;
  const size_t n_kept = context::max_kept_states(stride, kBlockPositions, end - begin);
  const std::vector<size_t> written = written_states(begin, end, stride, n_kept, marks);
  BlockId previous = kNoBlock;
  if (begin != 0) {
    const size_t source = (begin - 1) / kBlockPositions;
    previous = blocks[source];
    BILLOW_CHECK(previous != kNoBlock);
    if (written.back() != source) free_blocks(group, 0, source);
  }
  for (const size_t block : written) {
    if (blocks[block] != kNoBlock) continue;
    const std::optional<BlockId> taken = cache_->pool(group).take(previous);
    if (!taken) return false;
    previous = blocks[block] = *taken;
  }
  return true;
}

bool BlockTable::grow_draft(size_t begin, size_t end) {
  const std::optional<uint32_t> group = cache_->layout().states;
  if (!group) return true;
  BILLOW_CHECK(begin < end && begin / kBlockPositions == (end - 1) / kBlockPositions);
  if (draft_.block == kNoBlock) {
    const size_t source = (begin - 1) / kBlockPositions;
    const std::optional<BlockId> taken = cache_->pool(*group).take(groups_[*group].blocks[source]);
    if (!taken) return false;
    draft_.block = *taken;
  }
  draft_.begin = begin;
  draft_.end = end;
  return true;
}

// If the whole draft is right, its state replaces the one in its block of positions, if any.
size_t BlockTable::settle_draft(size_t n_held) {
  if (draft_.end == 0) return n_held;
  BILLOW_CHECK(draft_.begin <= n_held && n_held <= draft_.end);
  const bool whole = n_held == draft_.end;
  if (whole) {
    std::vector<BlockId>& blocks = groups_[*cache_->layout().states].blocks;
    std::swap(blocks[draft_.begin / kBlockPositions], draft_.block);
  }
  const size_t n_there = whole ? draft_.end : draft_.begin;
  draft_.begin = 0;
  draft_.end = 0;
  return n_there;
}

bool BlockTable::has_states() const noexcept { return cache_->layout().states.has_value(); }

void BlockTable::prepare_next() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<BlockId>& blocks = groups_[g].blocks;
    if (!blocks.empty() && blocks.back() != kNoBlock) cache_->pool(g).prepare(blocks.back());
  }
}

// Frees blocks [begin, end) of a group, as far as they exist. Returns whether any block was freed.
bool BlockTable::free_blocks(size_t group, size_t begin, size_t end) {
  std::vector<BlockId>& blocks = groups_[group].blocks;
  bool any = false;
  for (size_t i = begin; i < std::min(end, blocks.size()); ++i) {
    if (blocks[i] == kNoBlock) continue;
    cache_->pool(group).give_back(std::exchange(blocks[i], kNoBlock));
    any = true;
  }
  return any;
}

bool BlockTable::evict_before_window(size_t next) {
  bool any = false;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const Group& group = cache_->layout().groups[g];
    size_t n_unseen = 0;
    if (group.state_stride != 0)
      n_unseen = std::max<size_t>(next / kBlockPositions, 1) - 1;
    else if (group.window != 0 && next + 1 > group.window)
      n_unseen = (next + 1 - group.window) / kBlockPositions;
    any = free_blocks(g, groups_[g].n_evicted, n_unseen) || any;
    groups_[g].n_evicted = std::max(groups_[g].n_evicted, n_unseen);
  }
  return any;
}

void BlockTable::open_gap(size_t begin, size_t end) {
  BILLOW_CHECK(begin <= end && end >= gap_end_ && (gap_end_ == 0 || begin == gap_begin_));
  gap_begin_ = begin;
  gap_end_ = end;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const bool windowed = cache_->layout().groups[g].window != 0;
    const size_t whole_from = (begin + kBlockPositions - 1) / kBlockPositions;
    free_blocks(g, windowed ? 0 : whole_from, end / kBlockPositions);
  }
}

void BlockTable::append_shared(size_t group, std::vector<BlockId> blocks) {
  GroupBlocks& own = groups_[group];
  BILLOW_CHECK(own.blocks.empty());
  own.blocks = std::move(blocks);
  for (const BlockId block : own.blocks)
    if (block != kNoBlock) cache_->pool(group).share(block);
  while (own.n_evicted < own.blocks.size() && own.blocks[own.n_evicted] == kNoBlock)
    ++own.n_evicted;
  n_positions_ = own.blocks.size() * kBlockPositions;
}

void BlockTable::clear() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const BlockId block : groups_[g].blocks) {
      if (block != kNoBlock) cache_->pool(g).give_back(block);
    }
    groups_[g] = {};
  }
  if (draft_.block != kNoBlock) cache_->pool(*cache_->layout().states).give_back(draft_.block);
  draft_ = {};
  n_positions_ = 0;
  gap_begin_ = 0;
  gap_end_ = 0;
}

}  // namespace billow::kv
