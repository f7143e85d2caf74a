#include "context/memory_need.h"

#include <algorithm>

#include "base/saturating.h"
#include "context/ladder.h"

namespace billow::context {

uint64_t MemoryNeed::scratch_bytes(size_t n_positions) const {
  const auto step = std::ranges::lower_bound(scratch, n_positions, {}, &ScratchStep::n_positions);
  if (step != scratch.end()) return step->bytes;
  return scratch.empty() ? 0 : scratch.back().bytes;
}

bool has_states(std::span<const KvGroup> groups) noexcept {
  return std::ranges::any_of(groups, [](const KvGroup& group) { return group.state_stride != 0; });
}

uint64_t kv_bytes(std::span<const KvGroup> groups, size_t block_positions, size_t n_positions,
                  size_t n_batch, bool with_gap) {
  const auto blocks_of = [&](uint64_t n) {
    return n / block_positions + (n % block_positions != 0 ? 1 : 0);
  };
  if (n_positions == 0) return 0;
  if (has_states(groups)) with_gap = false;
  uint64_t sum = 0;
  for (const KvGroup& group : groups) {
    uint64_t n_blocks = blocks_of(n_positions) + (with_gap ? 2 : 0);
    if (group.window != 0) {
      // The window may begin anywhere in its first block.
      n_blocks = std::min(n_blocks, blocks_of(saturating_add(group.window, n_batch)) + 1);
    }
    if (group.state_stride != 0) {
      const size_t n_kept = max_kept_states(group.state_stride, block_positions, n_batch);
      n_blocks = saturating_add(std::min<uint64_t>(n_blocks, 2 + n_kept), group.n_draft_states);
    }
    sum = saturating_add(sum, saturating_multiply(n_blocks, group.block_bytes));
  }
  return sum;
}

MemoryNeed with_draft(MemoryNeed need, const MemoryNeed& draft) {
  need.weight_bytes = saturating_add(need.weight_bytes, draft.weight_bytes);
  for (ScratchStep& step : need.scratch)
    step.bytes = std::max(step.bytes, draft.scratch_bytes(step.n_positions));
  need.kv_groups.insert(need.kv_groups.end(), draft.kv_groups.begin(), draft.kv_groups.end());
  return need;
}

std::vector<size_t> scratch_positions(size_t max_context) {
  const Ladder ladder(std::max<size_t>(1, max_context));
  return {ladder.rungs().begin(), ladder.rungs().end()};
}

}  // namespace billow::context
