#include "kv/block_pool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/error.h"

namespace billow::kv {

BlockPool::BlockPool(size_t block_bytes, size_t max_blocks)
    : block_bytes_(block_bytes),
      max_blocks_(max_blocks),
      mapped_bytes_(std::max<size_t>(1, block_bytes * max_blocks)) {
  void* mapped = ::mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw Error(ErrorCode::kOutOfMemory, "no address space for " + std::to_string(mapped_bytes_) +
                                             " bytes of KV memory; allow fewer tokens of context");
  }
  base_ = static_cast<std::byte*>(mapped);
}

BlockPool::~BlockPool() { ::munmap(base_, mapped_bytes_); }

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
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  for (const BlockId block : free_) {
    const size_t begin = (block * block_bytes_ + page - 1) / page * page;
    const size_t end = (block + size_t{1}) * block_bytes_ / page * page;
    if (begin < end) ::madvise(base_ + begin, end - begin, MADV_DONTNEED);
  }
}

}  // namespace billow::kv
