// The memory of the blocks of one group. Address space for the maximum is reserved once; the system
// backs a block with memory, in huge pages where it has them, when it is first written and gets it
// back when the pool is asked to trim. Used by one thread at a time, but the blocks' bytes may be
// read and written by any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

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

  // A block whose bytes may be anything; nullopt when all are in use.
  [[nodiscard]] std::optional<BlockId> take();
  void give_back(BlockId block);
  // Returns the memory of unused blocks to the system, as far as they fill huge pages.
  void trim();

  std::byte* base() const noexcept { return base_; }
  size_t block_bytes() const noexcept { return block_bytes_; }
  size_t n_in_use() const noexcept { return n_touched_ - free_.size(); }
  size_t most_in_use() const noexcept { return n_touched_; }  // at one time, so far
  size_t max_blocks() const noexcept { return max_blocks_; }

 private:
  size_t block_bytes_;
  size_t max_blocks_;
  size_t mapped_bytes_;
  std::byte* mapped_ = nullptr;
  std::byte* base_ = nullptr;  // the first huge page of it
  size_t n_touched_ = 0;       // blocks below this have been handed out at some time
  std::vector<BlockId> free_;  // the touched ones that are not in use
};

}  // namespace billow::kv
