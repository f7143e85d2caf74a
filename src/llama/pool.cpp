#include "llama/pool.h"

#include <algorithm>

#include "base/saturating.h"

namespace billow::llama {

uint64_t Pool::estimated() const noexcept {
  return saturating_add(need_.weight_bytes, need_.scratch_bytes(max_cells_));
}

uint64_t Pool::bytes_of(size_t n_cells) const noexcept { return need_.kv_bytes(n_cells); }

size_t Pool::cells_within(uint64_t bytes) const noexcept {
  const size_t block = need_.block_positions;
  const uint64_t block_bytes = bytes_of(block);
  const size_t max = std::max(block, (max_cells_ + block - 1) / block * block);
  if (block_bytes == 0) return max;
  const uint64_t n_blocks = saturating_subtract(bytes, fixed_bytes()) / block_bytes;
  if (n_blocks >= max / block) return max;
  return std::max<size_t>(1, static_cast<size_t>(n_blocks)) * block;
}

void Pool::began(size_t n_cells, uint64_t fixed_bytes) noexcept {
  n_cells_ = n_cells;
  fixed_bytes_ = fixed_bytes;
}

uint64_t Pool::idle_bytes() const noexcept {
  return saturating_subtract(bytes_of(n_cells_), bytes_of(std::min(n_reserved_, n_cells_)));
}

uint64_t Pool::lacking_bytes(size_t n_more) const noexcept {
  const uint64_t needed = saturating_add(fixed_bytes(), bytes_of(n_reserved_ + n_more));
  return saturating_subtract(needed, budget_.bytes);
}

Room Pool::reserve(size_t n_had, size_t n_wanted, bool may_restart) noexcept {
  const size_t n_more = n_wanted - std::min(n_had, n_wanted);
  if (n_reserved_ + n_more <= n_cells_) {
    n_reserved_ += n_more;
    return Room::kThere;
  }
  if (n_reserved_ + n_more <= cells_of_budget()) {
    if (!may_restart) return Room::kBusy;
    n_reserved_ += n_more;
    return Room::kThere;
  }
  const uint64_t lacking = lacking_bytes(n_more);
  if (n_reserved_ + n_more > max_cells_ || saturating_add(budget_.bytes, lacking) > budget_.ceiling)
    return n_reserved_ > n_had ? Room::kFull : Room::kNone;
  return Room::kLacking;
}

}  // namespace billow::llama
