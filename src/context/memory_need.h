// The memory that a model and its requests need. The engine grants memory by this calculation, the
// scheduler plans with it, and `billow plan` and `billow runner --describe` show it. Pure
// arithmetic, which saturates instead of wrapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::context {

// KV of the layers with the same window, or the states of all recurrent layers.
struct KvGroup {
  uint64_t block_bytes = 0;
  size_t window = 0;  // number of positions that a query sees; 0: all
  // 0: a block holds keys and values of its positions. Otherwise a block holds the states after its
  // last position, and every state_stride-th block is kept for prompts with the same prefix.
  size_t state_stride = 0;
  // In a group of states: additional states that a sequence has for drafts.
  size_t n_draft_states = 0;
  bool operator==(const KvGroup&) const = default;
};

bool has_states(std::span<const KvGroup> groups) noexcept;

// Returns the max number of states that a pass of n_batch rows keeps for prompts with the same
// prefix. Does not count the states at the beginning and at the end of the pass.
constexpr size_t max_kept_states(size_t state_stride, size_t block_positions, size_t n_batch) {
  if (state_stride > SIZE_MAX / block_positions) return 1;
  const size_t between = state_stride * block_positions;
  return n_batch <= between ? 1 : (n_batch + between - 1) / between;
}

// Max scratch of passes in which no sequence has more than n_positions.
struct ScratchStep {
  size_t n_positions = 0;
  uint64_t bytes = 0;
  bool operator==(const ScratchStep&) const = default;
};

// Returns the max bytes of KV that a sequence of n_positions needs, in whole blocks, while at most
// n_batch positions are evaluated at a time. Groups with a window keep what the first row of a pass
// sees. A group of states holds four kinds of states: where a pass begins, where the pass ends, the
// kept ones, and those after drafted rows. A gap, which a shift leaves, may begin and end within
// blocks; models with states have no gaps. REQUIRES: block_positions >= 1.
uint64_t kv_bytes(std::span<const KvGroup> groups, size_t block_positions, size_t n_positions,
                  size_t n_batch, bool with_gap);

struct MemoryNeed {
  uint64_t weight_bytes = 0;
  std::vector<ScratchStep> scratch{};  // ascending in both; not empty
  std::vector<KvGroup> kv_groups{};
  size_t block_positions = 1;  // of a KV block
  size_t n_batch = 1;          // max rows of a pass

  // Returns the bytes of the first step that reaches n_positions, or of the last step.
  uint64_t scratch_bytes(size_t n_positions) const;
  // Returns the bytes of one sequence.
  uint64_t kv_bytes(size_t n_positions, bool with_gap = false) const {
    return context::kv_bytes(kv_groups, block_positions, n_positions, n_batch, with_gap);
  }

  bool operator==(const MemoryNeed&) const = default;
};

// Returns the need of a model together with its draft model. Their passes take turns, so they share
// scratch memory.
MemoryNeed with_draft(MemoryNeed need, const MemoryNeed& draft);

// Returns the positions at which a model's scratch is calculated: 512, doubling, up to the model's
// maximum.
std::vector<size_t> scratch_positions(size_t max_context);

}  // namespace billow::context
