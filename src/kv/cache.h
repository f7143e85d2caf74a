// The KV memory of a model: its layout and one pool of blocks for each group. Must outlive the
// block tables that use it.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kv/block_pool.h"
#include "kv/layout.h"

namespace billow::kv {

class Cache {
 public:
  // Allocates for `max_positions` positions in all sequences together (each sequence rounded up to
  // whole blocks). `n_draft_states`: see Layout.
  Cache(const std::vector<LayerNeed>& needs, size_t max_positions, KvType type = KvType::kInt16,
        size_t n_draft_states = 0);

  const Layout& layout() const noexcept { return layout_; }
  BlockPool& pool(size_t group) noexcept { return *pools_[group]; }
  const BlockPool& pool(size_t group) const noexcept { return *pools_[group]; }

  size_t bytes_in_use() const noexcept;
  size_t bytes_backed() const noexcept;      // with physical memory, in use or free
  size_t max_bytes_in_use() const noexcept;  // sum of each pool's max so far
  size_t bytes_reserved() const noexcept;    // of address space: the limit of bytes_in_use()
  void trim();                               // returns the memory of free blocks to the system

 private:
  Layout layout_;
  std::vector<std::unique_ptr<BlockPool>> pools_;
};

}  // namespace billow::kv
