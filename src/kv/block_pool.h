// The memory of the KV blocks of one group. The constructor reserves address space for all blocks.
// The system commits memory in pieces of kHeldBytes, when the first block of a piece is taken. A
// block gets physical memory when it is first written, in huge pages if the system has them. trim()
// returns the memory of free blocks. A block may have several owners. One thread at a time may use
// the pool; any thread may read and write the blocks' bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/address_space.h"
#include "kv/populator.h"

namespace billow::kv {

using BlockId = uint32_t;
inline constexpr BlockId kNoBlock = 0xFFFFFFFFu;

class BlockPool {
 public:
  // Throws Error if the address space cannot be reserved.
  BlockPool(size_t block_bytes, size_t max_blocks);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // Allocates a block with one owner and undefined bytes. Returns nullopt if all blocks are in use.
  // Throws Error if the system has no memory. `previous` is the block before this one in the same
  // sequence. A sequence's blocks are placed next to each other, apart from those of other
  // sequences, so that a finished sequence frees whole pages.
  [[nodiscard]] std::optional<BlockId> take(BlockId previous = kNoBlock);
  // Makes the block that take(previous) will likely return resident, in the background.
  void prepare(BlockId previous);
  void share(BlockId block);      // adds an owner
  void give_back(BlockId block);  // removes an owner; without owners the block is free
  // The same for an owner that keeps the block in a cache. A block has at most one keeper.
  void keep(BlockId block);
  void give_back_kept(BlockId block);
  // Returns whether the keeper is the block's only owner. n_cached() counts such blocks.
  bool is_cached(BlockId block) const { return kept_[block] && owners_[block] == 1; }
  size_t n_cached() const noexcept { return n_cached_; }
  // Returns the memory of free blocks to the system, as far as they fill whole huge pages.
  void trim();

  std::byte* base() const noexcept { return space_.data(); }
  size_t block_bytes() const noexcept { return block_bytes_; }
  size_t n_owners(BlockId block) const { return owners_[block]; }
  size_t n_in_use() const noexcept { return n_in_use_; }
  // Blocks with physical memory, in use or free.
  size_t n_backed() const noexcept;
  size_t max_in_use() const noexcept { return max_in_use_; }  // max so far
  size_t max_blocks() const noexcept { return owners_.size(); }

 private:
  // Number of adjacent blocks in an extent. One sequence has an extent for itself while there is
  // space.
  static constexpr size_t kExtentBlocks = 64;

  // Bytes that are committed at a time: few system calls, and little more than what is in use.
  static constexpr size_t kHeldBytes = size_t{16} << 20;

  std::optional<BlockId> find(BlockId behind) const;
  [[nodiscard]] bool hold(BlockId block);
  size_t begin_of(size_t piece) const noexcept {
    return std::min(piece * kHeldBytes, space_.size());
  }
  void release(size_t first, size_t end);

  size_t block_bytes_;
  AddressSpace space_;
  std::vector<bool> held_;             // [piece] whether the piece is committed
  std::vector<uint32_t> owners_;       // [block]
  std::vector<bool> kept_;             // [block] whether the block has a keeper
  std::vector<bool> backed_;           // [block] whether the block may have physical memory
  std::vector<uint32_t> n_in_extent_;  // [extent] blocks in use
  std::vector<uint32_t> unused_extents_;
  Populator populator_;
  size_t n_in_use_ = 0;
  size_t n_cached_ = 0;
  size_t max_in_use_ = 0;
};

}  // namespace billow::kv
