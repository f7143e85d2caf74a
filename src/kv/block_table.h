// Which blocks hold a sequence's positions: for each group, block ids by position / 64. Owns the
// blocks and gives them back at its end. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kv/block_pool.h"

namespace billow::kv {

class Cache;

class BlockTable {
 public:
  explicit BlockTable(Cache& cache);
  ~BlockTable();
  BlockTable(BlockTable&& other) noexcept;
  BlockTable& operator=(BlockTable&&) = delete;
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Makes room for positions 0 .. n_positions - 1. False when the pools have no more blocks; what
  // there was stays.
  [[nodiscard]] bool grow(size_t n_positions);
  // Gives back blocks that no query at position `next` or later sees any more: those before a
  // group's window.
  void forget_before_window(size_t next);
  void clear();

  // Block ids of a group; kNoBlock for forgotten ones.
  std::span<const BlockId> blocks(size_t group) const noexcept { return groups_[group].blocks; }
  size_t n_positions() const noexcept { return n_positions_; }  // that there is room for

 private:
  struct GroupBlocks {
    std::vector<BlockId> blocks;
    size_t n_forgotten = 0;
  };
  Cache* cache_;
  std::vector<GroupBlocks> groups_;
  size_t n_positions_ = 0;
};

}  // namespace billow::kv
