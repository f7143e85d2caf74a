// Pools the hidden states of a text's tokens into its vector. Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <span>

#include "engine/pooling.h"

namespace billow::engine {

// Returns the number of floats after pooling n tokens. REQUIRES: not kRank.
size_t pooled_length(Pooling pooling, size_t n_tokens, size_t n_embd) noexcept;

// Pools `rows`, [n][n_embd], of at least one token; `out` has pooled_length() floats. Sums in
// double, token after token. Values that are not finite stay so. REQUIRES: not kRank.
void pool_rows(Pooling pooling, const float* rows, size_t n, size_t n_embd, float* out) noexcept;

bool all_finite(std::span<const float> values) noexcept;

}  // namespace billow::engine
