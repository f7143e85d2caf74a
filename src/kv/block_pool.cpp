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
      max_blocks_(max_blocks),
      mapped_bytes_((block_bytes * max_blocks / kHugePage + 2) * kHugePage) {
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

BlockPool::~BlockPool() { ::munmap(mapped_, mapped_bytes_); }

std::optional<BlockId> BlockPool::take() {
  if (!free_.empty()) {
    const BlockId block = free_.back();
    free_.pop_back();
    return block;
  }
  if (n_touched_ == max_blocks_) return std::nullopt;
  return static_cast<BlockId>(n_touched_++);
}

void BlockPool::give_back(BlockId block) {
  BILLOW_CHECK(block < n_touched_);
  free_.push_back(block);
}

void BlockPool::trim() {
  std::vector<BlockId> unused = free_;
  std::sort(unused.begin(), unused.end());
  for (size_t i = 0; i < unused.size();) {
    const size_t first = unused[i];
    size_t next = first;
    for (; i < unused.size() && unused[i] == next; ++i) ++next;
    // Whole huge pages only: one that is broken up would stay in small pages. Nothing is in use
    // behind the last block that was touched.
    const size_t begin = (first * block_bytes_ + kHugePage - 1) / kHugePage * kHugePage;
    const size_t last = next == n_touched_ ? kHugePage - 1 : 0;
    const size_t end = (next * block_bytes_ + last) / kHugePage * kHugePage;
    if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace billow::kv
