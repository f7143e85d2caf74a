#include "kv/cache.h"

#include <algorithm>

namespace billow::kv {

Cache::Cache(const std::vector<LayerNeed>& needs, size_t max_positions, KvType type,
             size_t n_draft_states)
    : layout_(needs, type, n_draft_states) {
  const size_t n_blocks = (max_positions + kBlockPositions - 1) / kBlockPositions;
  for (const Group& group : layout_.groups) {
    pools_.push_back(std::make_unique<BlockPool>(group.block_bytes, n_blocks));
  }
}

size_t Cache::bytes_in_use() const noexcept {
  size_t sum = 0;
  for (const auto& pool : pools_) sum += pool->n_in_use() * pool->block_bytes();
  return sum;
}

size_t Cache::bytes_backed() const noexcept {
  size_t sum = 0;
  for (const auto& pool : pools_) sum += pool->n_backed() * pool->block_bytes();
  return sum;
}

size_t Cache::max_bytes_in_use() const noexcept {
  size_t sum = 0;
  for (const auto& pool : pools_) sum += pool->max_in_use() * pool->block_bytes();
  return sum;
}

size_t Cache::bytes_reserved() const noexcept {
  size_t sum = 0;
  for (const auto& pool : pools_) sum += pool->max_blocks() * pool->block_bytes();
  return sum;
}

void Cache::trim() {
  for (const auto& pool : pools_) pool->trim();
}

}  // namespace billow::kv
