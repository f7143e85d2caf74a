// Which rows run in the next step. Pure: it sees how many tokens of each sequence wait to be
// evaluated, nothing else.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace billow::engine {

struct Share {
  size_t sequence = 0;  // index
  size_t n_rows = 0;    // of its waiting tokens, from the first on
};

// Packs at most n_batch rows. Sequences with few waiting tokens (they are writing: one token, or
// what a grammar left no choice about) go first, so that a long prompt does not stall them; prompts
// fill the rest in turn, the first from `first` on, so that none waits for ever.
std::vector<Share> plan_batch(std::span<const size_t> n_pending, size_t n_batch, size_t first);

}  // namespace billow::engine
