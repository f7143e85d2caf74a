#include "kv/block_pool.h"

#include <sys/mman.h>

#include <algorithm>

#include "base/byte_size.h"
#include "base/check.h"
#include "base/error.h"
#include "base/saturating.h"

namespace billow::kv {
namespace {

// Huge pages matter because attention jumps from block to block. With pages of 4 KiB, the page
// tables would cost as much time as the memory itself.
constexpr size_t kHugePage = AddressSpace::kHugePage;

}  // namespace

BlockPool::BlockPool(size_t block_bytes, size_t max_blocks)
    : block_bytes_(block_bytes),
      space_(saturating_multiply(block_bytes, max_blocks), "KV memory"),
      held_((space_.size() + kHeldBytes - 1) / kHeldBytes),
      owners_(max_blocks),
      kept_(max_blocks),
      backed_(max_blocks),
      n_in_extent_((max_blocks + kExtentBlocks - 1) / kExtentBlocks) {
  for (size_t e = n_in_extent_.size(); e > 0; --e)
    unused_extents_.push_back(static_cast<uint32_t>(e - 1));
}

BlockPool::~BlockPool() { populator_.wait(); }

// Commits the pieces that contain the block.
bool BlockPool::hold(BlockId block) {
  const size_t begin = block * block_bytes_ / kHeldBytes;
  const size_t end = ((block + size_t{1}) * block_bytes_ + kHeldBytes - 1) / kHeldBytes;
  for (size_t piece = begin; piece < end; ++piece) {
    if (held_[piece]) continue;
    if (!space_.hold(begin_of(piece), begin_of(piece + 1))) return false;
    held_[piece] = true;
  }
  return true;
}

std::optional<BlockId> BlockPool::find(BlockId previous) const {
  const auto is_free = [&](size_t block) { return owners_[block] == 0; };
  if (previous != kNoBlock) {
    // Search the same extent: first for free blocks with memory, such as those that left a window,
    // then for the next free block.
    const size_t begin = previous / kExtentBlocks * kExtentBlocks;
    const size_t end = std::min(begin + kExtentBlocks, owners_.size());
    for (size_t block = begin; block < end; ++block)
      if (is_free(block) && backed_[block]) return static_cast<BlockId>(block);
    for (size_t block = previous + 1; block < end; ++block)
      if (is_free(block)) return static_cast<BlockId>(block);
  }
  if (!unused_extents_.empty()) return static_cast<BlockId>(unused_extents_.back() * kExtentBlocks);
  for (size_t block = 0; block < owners_.size(); ++block)
    if (is_free(block)) return static_cast<BlockId>(block);
  return std::nullopt;
}

std::optional<BlockId> BlockPool::take(BlockId previous) {
  const std::optional<BlockId> block = find(previous);
  if (!block) return std::nullopt;
  if (!hold(*block)) {
    throw Error(ErrorCode::kOutOfMemory, "the system has no memory for a block of KV of " +
                                             format_byte_size(block_bytes_) +
                                             "; allow less with --memory");
  }
  owners_[*block] = 1;
  backed_[*block] = true;
  const size_t extent = *block / kExtentBlocks;
  if (n_in_extent_[extent]++ == 0) std::erase(unused_extents_, static_cast<uint32_t>(extent));
  max_in_use_ = std::max(max_in_use_, ++n_in_use_);
  return block;
}

void BlockPool::prepare(BlockId previous) {
  const std::optional<BlockId> block = find(previous);
  if (!block || backed_[*block] || !hold(*block)) return;
  backed_[*block] = true;
  populator_.populate({base() + *block * block_bytes_, block_bytes_});
}

void BlockPool::share(BlockId block) {
  BILLOW_CHECK(block < owners_.size() && owners_[block] > 0);
  if (is_cached(block)) --n_cached_;
  ++owners_[block];
}

void BlockPool::keep(BlockId block) {
  share(block);
  BILLOW_CHECK(!kept_[block]);
  kept_[block] = true;
}

void BlockPool::give_back_kept(BlockId block) {
  BILLOW_CHECK(block < owners_.size() && kept_[block]);
  if (is_cached(block)) --n_cached_;
  kept_[block] = false;
  give_back(block);
}

void BlockPool::give_back(BlockId block) {
  BILLOW_CHECK(block < owners_.size() && owners_[block] > 0);
  --owners_[block];
  if (is_cached(block)) ++n_cached_;
  if (owners_[block] > 0) return;
  --n_in_use_;
  const auto extent = static_cast<uint32_t>(block / kExtentBlocks);
  if (--n_in_extent_[extent] == 0) unused_extents_.push_back(extent);
}

size_t BlockPool::n_backed() const noexcept {
  return static_cast<size_t>(std::ranges::count(backed_, true));
}

void BlockPool::trim() {
  populator_.wait();  // the populator must not make memory resident that is freed below
  for (size_t block = 0; block < owners_.size();) {
    const size_t first = block;
    bool backed = false;
    for (; block < owners_.size() && owners_[block] == 0; ++block)
      backed = backed || backed_[block];
    if (backed) release(first, block);
    if (block == first) ++block;
  }
}

// Returns the memory of blocks [first, end), whose neighbours are in use. Returns whole huge pages
// only, because a split huge page would stay in small pages. Whole pieces are also uncommitted.
void BlockPool::release(size_t first, size_t end) {
  const bool is_last = end == owners_.size();
  const size_t begin_byte = (first * block_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  const size_t end_byte = is_last ? space_.size() : end * block_bytes_ / kHugePage * kHugePage;
  if (begin_byte >= end_byte) return;
  ::madvise(base() + begin_byte, end_byte - begin_byte, MADV_DONTNEED);
  for (size_t block = first; block < end; ++block) {
    if (block * block_bytes_ >= begin_byte && (block + 1) * block_bytes_ <= end_byte)
      backed_[block] = false;
  }
  for (size_t piece = (begin_byte + kHeldBytes - 1) / kHeldBytes;
       piece < held_.size() && begin_of(piece + 1) <= end_byte; ++piece) {
    if (held_[piece]) space_.give_back(begin_of(piece), begin_of(piece + 1));
    held_[piece] = false;
  }
}

}  // namespace billow::kv
