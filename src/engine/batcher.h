// Which rows run in the next step. Pure: it sees how many tokens of each sequence wait to be
// evaluated, nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::engine {

struct ScheduledChunk {
  size_t sequence = 0;  // index
  size_t n_rows = 0;    // of its waiting tokens, from the first on
};

struct BatchLimits {
  size_t n_rows = 1;              // of the step
  size_t n_read_rows = SIZE_MAX;  // of them, those of sequences with more than kMaxWritten tokens
};

// The most tokens that a sequence which writes waits for: one, or what a grammar left no choice
// about.
inline constexpr size_t kMaxWritten = 16;

// Packs rows within the limits. Sequences with few waiting tokens (they write) go first, so that a
// long prompt does not stall them; prompts fill the rest in turn, the first from `first` on, so
// that none waits for ever.
std::vector<ScheduledChunk> plan_batch(std::span<const size_t> n_pending, const BatchLimits& limits,
                                       size_t first);

}  // namespace billow::engine
