#include "kv/block_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::kv {
namespace {

// Attention jumps from block to block, so that with pages of 4 KiB it would wait for the page
// tables as much as for the memory.
constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

BlockPool::BlockPool(size_t block_bytes, size_t max_blocks)
    : block_bytes_(block_bytes),
      mapped_bytes_((block_bytes * max_blocks / kHugePage + 2) * kHugePage),
      owners_(max_blocks),
      backed_(max_blocks),
      n_in_extent_((max_blocks + kExtentBlocks - 1) / kExtentBlocks) {
  for (size_t e = n_in_extent_.size(); e > 0; --e)
    unused_extents_.push_back(static_cast<uint32_t>(e - 1));
  void* mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory, "no address space for " + std::to_string(mapped_bytes_) +
                                             " bytes of KV memory; allow fewer tokens of context");
  }
  mapped_ = static_cast<std::byte*>(mapped);
  const size_t past = reinterpret_cast<uintptr_t>(mapped_) % kHugePage;
  base_ = mapped_ + (kHugePage - past) % kHugePage;
  // Where the system has no huge pages, it takes small ones.
  ::madvise(base_, mapped_bytes_ - kHugePage, MADV_HUGEPAGE);
}

BlockPool::~BlockPool() {
  populator_.wait();
  ::munmap(mapped_, mapped_bytes_);
}

std::optional<BlockId> BlockPool::find(BlockId behind) const {
  const auto is_free = [&](size_t block) { return owners_[block] == 0; };
  if (behind != kNoBlock) {
    // In the same extent: what has memory already, as blocks that left a window have, or the next.
    const size_t begin = behind / kExtentBlocks * kExtentBlocks;
    const size_t end = std::min(begin + kExtentBlocks, owners_.size());
    for (size_t block = begin; block < end; ++block)
      if (is_free(block) && backed_[block]) return static_cast<BlockId>(block);
    for (size_t block = behind + 1; block < end; ++block)
      if (is_free(block)) return static_cast<BlockId>(block);
  }
  if (!unused_extents_.empty()) return static_cast<BlockId>(unused_extents_.back() * kExtentBlocks);
  for (size_t block = 0; block < owners_.size(); ++block)
    if (is_free(block)) return static_cast<BlockId>(block);
  return std::nullopt;
}

std::optional<BlockId> BlockPool::take(BlockId behind) {
  const std::optional<BlockId> block = find(behind);
  if (!block) return std::nullopt;
  owners_[*block] = 1;
  backed_[*block] = true;
  const size_t extent = *block / kExtentBlocks;
  if (n_in_extent_[extent]++ == 0) std::erase(unused_extents_, static_cast<uint32_t>(extent));
  most_in_use_ = std::max(most_in_use_, ++n_in_use_);
  return block;
}

void BlockPool::prepare(BlockId behind) {
  const std::optional<BlockId> block = find(behind);
  if (!block || backed_[*block]) return;
  backed_[*block] = true;
  populator_.populate({base_ + *block * block_bytes_, block_bytes_});
}

void BlockPool::share(BlockId block) {
  BILLOW_CHECK(block < owners_.size() && owners_[block] > 0);
  ++owners_[block];
}

void BlockPool::give_back(BlockId block) {
  BILLOW_CHECK(block < owners_.size() && owners_[block] > 0);
  if (--owners_[block] > 0) return;
  --n_in_use_;
  const auto extent = static_cast<uint32_t>(block / kExtentBlocks);
  if (--n_in_extent_[extent] == 0) unused_extents_.push_back(extent);
}

size_t BlockPool::n_backed() const noexcept {
  return static_cast<size_t>(std::ranges::count(backed_, true));
}

void BlockPool::trim() {
  populator_.wait();  // or it would bring back what goes
  for (size_t block = 0; block < owners_.size();) {
    const size_t first = block;
    bool backed = false;
    for (; block < owners_.size() && owners_[block] == 0; ++block)
      backed = backed || backed_[block];
    if (backed) release(first, block);
    if (block == first) ++block;
  }
}

// The memory of blocks [first, end), whose neighbours are in use. Whole huge pages only: one that
// is broken up would stay in small pages.
void BlockPool::release(size_t first, size_t end) {
  const bool is_last = end == owners_.size();
  const size_t begin_byte = (first * block_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
  const size_t end_byte =
      (end * block_bytes_ + (is_last ? kHugePage - 1 : 0)) / kHugePage * kHugePage;
  if (begin_byte >= end_byte) return;
  ::madvise(base_ + begin_byte, end_byte - begin_byte, MADV_DONTNEED);
  for (size_t block = first; block < end; ++block) {
    if (block * block_bytes_ >= begin_byte && (block + 1) * block_bytes_ <= end_byte)
      backed_[block] = false;
  }
}

}  // namespace billow::kv
