// What a model and its requests take of memory: the one reckoning that the engine grants by, the
// scheduler plans with, and `billow plan` and `billow runner --describe` show. Pure arithmetic,
// which ends at the greatest number instead of wrapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::context {

// KV of the layers that see equally far back, or the recurrent states of all layers that have one.
struct KvGroup {
  uint64_t block_bytes = 0;
  size_t window = 0;  // positions that a query sees; 0: all
  // 0: a block holds keys and values of its positions. Else a block holds the states behind its
  // last position, and every state_stride-th block is kept for prompts that begin alike.
  size_t state_stride = 0;
  // Of a group of states: those that a sequence has beside, for what is drafted.
  size_t n_draft_states = 0;
  bool operator==(const KvGroup&) const = default;
};

bool has_states(std::span<const KvGroup> groups) noexcept;

// The most states that a pass of n_batch rows keeps beside those that its sequence goes on from.
constexpr size_t max_kept_states(size_t state_stride, size_t block_positions, size_t n_batch) {
  if (state_stride > SIZE_MAX / block_positions) return 1;
  const size_t between = state_stride * block_positions;
  return n_batch <= between ? 1 : (n_batch + between - 1) / between;
}

// The most scratch of passes in which no sequence reaches more than n_positions.
struct ScratchStep {
  size_t n_positions = 0;
  uint64_t bytes = 0;
  bool operator==(const ScratchStep&) const = default;
};

// The most that a sequence of n_positions takes, in whole blocks, while at most n_batch of them are
// evaluated at a time. Groups with a window keep what the first row of a pass sees; a group of
// states has the one that a pass begins with, the one that it ends with, those that it keeps, and
// those behind drafted rows. A gap, which a shift leaves, may begin and end within blocks; models
// with states have none.
// REQUIRES: blocks hold at least one position.
uint64_t kv_bytes(std::span<const KvGroup> groups, size_t block_positions, size_t n_positions,
                  size_t n_batch, bool with_gap);

struct MemoryNeed {
  uint64_t weight_bytes = 0;
  std::vector<ScratchStep> scratch{};  // rising in both; not empty
  std::vector<KvGroup> kv_groups{};
  size_t block_positions = 1;  // of a KV block
  size_t n_batch = 1;          // rows of a pass

  // Of the first step that reaches n_positions, or of the last one.
  uint64_t scratch_bytes(size_t n_positions) const;
  // Of one sequence.
  uint64_t kv_bytes(size_t n_positions, bool with_gap = false) const {
    return context::kv_bytes(kv_groups, block_positions, n_positions, n_batch, with_gap);
  }

  bool operator==(const MemoryNeed&) const = default;
};

// Of a model and one that drafts for it, whose passes take turns: they share scratch memory.
MemoryNeed with_draft(MemoryNeed need, const MemoryNeed& draft);

// The positions at which the scratch of a model is reckoned: 512, doubling, up to its maximum.
std::vector<size_t> scratch_positions(size_t max_context);

}  // namespace billow::context
