#include "context/compaction.h"

#include <algorithm>

#include "base/check.h"

namespace billow::context {

size_t min_freed(size_t context) {
  constexpr size_t kMinFreed = 64;
  constexpr size_t kShare = 16;
  return std::min(std::max(kMinFreed, context / kShare), context - longest_anchor(context));
}

Compaction plan_compaction(size_t n_held, size_t n_anchor, const CompactionOptions& options) {
  BILLOW_CHECK(n_held >= 2 && n_anchor <= longest_anchor(n_held));
  const size_t max = n_held - min_freed(n_held);
  const size_t reserve = options.reserve_batches;
  const bool all =
      reserve > 0 && options.batch > n_held / reserve;  // then their product may overflow
  const size_t recent = all ? n_held : reserve * options.batch;
  const size_t keep = std::max<size_t>(1, std::min(max, n_anchor + recent));
  return {n_anchor, keep, n_held - keep};
}

}  // namespace billow::context
