// The memory of the blocks of one group. Address space for the maximum is reserved once; the system
// backs a block with memory, in huge pages where it has them, when it is first written, and gets it
// back when the pool is asked to trim. A block may have several owners. Used by one thread at a
// time, but the blocks' bytes may be read and written by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kv/populator.h"

namespace billow::kv {

using BlockId = uint32_t;
inline constexpr BlockId kNoBlock = 0xFFFFFFFFu;

class BlockPool {
 public:
  // Throws Error when the address space cannot be had.
  BlockPool(size_t block_bytes, size_t max_blocks);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block whose bytes may be anything, with one owner; nullopt when all are in use. Blocks that
  // are taken behind one another lie side by side, apart from those of others, so that what ends
  // together frees whole pages.
  [[nodiscard]] std::optional<BlockId> take(BlockId behind = kNoBlock);
  // Has the block that take(behind) will likely give made resident, in the background.
  void prepare(BlockId behind);
  void share(BlockId block);      // one owner more
  void give_back(BlockId block);  // one owner less; nobody's bytes may be anything
  // Returns the memory of blocks without owners to the system, as far as they fill huge pages.
  void trim();

  std::byte* base() const noexcept { return base_; }
  size_t block_bytes() const noexcept { return block_bytes_; }
  size_t n_owners(BlockId block) const { return owners_[block]; }
  size_t n_in_use() const noexcept { return n_in_use_; }
  // Blocks that have memory of the system, in use or not.
  size_t n_backed() const noexcept;
  size_t most_in_use() const noexcept { return most_in_use_; }  // at one time, so far
  size_t max_blocks() const noexcept { return owners_.size(); }

 private:
  // Neighbouring blocks that one run of takes has for itself while there is room.
  static constexpr size_t kExtentBlocks = 64;

  std::optional<BlockId> find(BlockId behind) const;
  void release(size_t first, size_t end);

  size_t block_bytes_;
  size_t mapped_bytes_;
  std::byte* mapped_ = nullptr;
  std::byte* base_ = nullptr;          // the first huge page of it
  std::vector<uint32_t> owners_;       // of each block
  std::vector<bool> backed_;           // blocks that may have memory
  std::vector<uint32_t> n_in_extent_;  // blocks in use
  std::vector<uint32_t> unused_extents_;
  Populator populator_;
  size_t n_in_use_ = 0;
  size_t most_in_use_ = 0;
};

}  // namespace billow::kv
