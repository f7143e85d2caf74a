// Chooses the rows of the next step. Pure: the only input is what each sequence needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace billow::engine {

struct ScheduledChunk {
  size_t sequence = 0;  // index
  size_t n_rows = 0;    // the first pending tokens of the sequence
};

// What a sequence needs from the next step.
struct Pending {
  size_t n_rows = 0;     // pending tokens
  bool is_bulk = false;  // its prompt waits for other prompts
};

struct BatchLimits {
  size_t n_rows = 1;              // max rows of the step
  size_t n_read_rows = SIZE_MAX;  // max rows of sequences with more than kMaxWritten tokens
};

// Max pending tokens of a sequence that generates: one, or the tokens that a grammar forces.
inline constexpr size_t kMaxWritten = 16;

// Packs rows within the limits. Sequences with few pending tokens (they generate) go first, so that
// a long prompt does not stall them. Prompts fill the rest in turn, starting with sequence `first`,
// so that no prompt waits forever. Prompts of bulk sequences get what other prompts leave.
std::vector<ScheduledChunk> plan_batch(std::span<const Pending> pending, const BatchLimits& limits,
                                       size_t first);

}  // namespace billow::engine
