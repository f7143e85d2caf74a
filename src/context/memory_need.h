// What a model and its requests take of memory: the one reckoning that the engine grants by, the
// scheduler plans with, and `billow plan` and `billow runner --describe` show. Pure arithmetic,
// which ends at the greatest number instead of wrapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::context {

// KV of the layers that see equally far back.
struct KvGroup {
  uint64_t block_bytes = 0;
  size_t window = 0;  // positions that a query sees; 0: all
  bool operator==(const KvGroup&) const = default;
};

// The most scratch of passes in which no sequence reaches more than n_positions.
struct ScratchStep {
  size_t n_positions = 0;
  uint64_t bytes = 0;
  bool operator==(const ScratchStep&) const = default;
};

// The most that a sequence of n_positions takes, in whole blocks, while at most n_batch of them are
// evaluated at a time. Groups with a window keep what the first row of a pass sees. A gap, which a
// shift leaves, may begin and end within blocks. REQUIRES: blocks hold at least one position.
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

// The positions at which the scratch of a model is reckoned: 512, doubling, up to its maximum.
std::vector<size_t> scratch_positions(size_t max_context);

}  // namespace billow::context
