// The memory of the blocks of one group. Address space for the maximum is reserved once; memory is
// promised by the system in pieces of kHeldBytes with the first block in them, backs a block, in
// huge pages where there are some, when it is first written, and goes back when the pool is asked
// to trim. A block may have several owners. Used by one thread at a
// time, but the blocks' bytes may be read and written by any.
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
  // Throws Error when the address space cannot be had.
  BlockPool(size_t block_bytes, size_t max_blocks);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // A block whose bytes may be anything, with one owner; nullopt when all are in use. Throws Error
  // when the system has no memory. Blocks that
  // are taken behind one another lie side by side, apart from those of others, so that what ends
  // together frees whole pages.
  [[nodiscard]] std::optional<BlockId> take(BlockId behind = kNoBlock);
  // Has the block that take(behind) will likely give made resident, in the background.
  void prepare(BlockId behind);
  void share(BlockId block);      // one owner more
  void give_back(BlockId block);  // one owner less; nobody's bytes may be anything
  // The same for an owner that keeps the block for others. A block has one keeper at most.
  void keep(BlockId block);
  void give_back_kept(BlockId block);
  // Whether its keeper is the only owner, and how many such blocks there are.
  bool is_cached(BlockId block) const { return kept_[block] && owners_[block] == 1; }
  size_t n_cached() const noexcept { return n_cached_; }
  // Returns the memory of blocks without owners to the system, as far as they fill huge pages.
  void trim();

  std::byte* base() const noexcept { return space_.data(); }
  size_t block_bytes() const noexcept { return block_bytes_; }
  size_t n_owners(BlockId block) const { return owners_[block]; }
  size_t n_in_use() const noexcept { return n_in_use_; }
  // Blocks that have memory of the system, in use or not.
  size_t n_backed() const noexcept;
  size_t max_in_use() const noexcept { return max_in_use_; }  // at one time, so far
  size_t max_blocks() const noexcept { return owners_.size(); }

 private:
  // Neighbouring blocks that one run of takes has for itself while there is room.
  static constexpr size_t kExtentBlocks = 64;

  // How much is asked of the system at a time: few calls, and little more than is in use.
  static constexpr size_t kHeldBytes = size_t{16} << 20;

  std::optional<BlockId> find(BlockId behind) const;
  [[nodiscard]] bool hold(BlockId block);
  size_t begin_of(size_t piece) const noexcept {
    return std::min(piece * kHeldBytes, space_.size());
  }
  void release(size_t first, size_t end);

  size_t block_bytes_;
  AddressSpace space_;
  std::vector<bool> held_;             // pieces of it
  std::vector<uint32_t> owners_;       // of each block
  std::vector<bool> kept_;             // blocks that have a keeper
  std::vector<bool> backed_;           // blocks that may have memory
  std::vector<uint32_t> n_in_extent_;  // blocks in use
  std::vector<uint32_t> unused_extents_;
  Populator populator_;
  size_t n_in_use_ = 0;
  size_t n_cached_ = 0;
  size_t max_in_use_ = 0;
};

}  // namespace billow::kv
