// Makes the vector of a text from the hidden states of its tokens. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <span>

#include "engine/pooling.h"

namespace billow::engine {

// Floats that pooling makes of n tokens. REQUIRES: not kRank.
size_t pooled_length(Pooling pooling, size_t n_tokens, size_t n_embd) noexcept;

// `rows` is [n][n_embd], of at least one token; out has pooled_length() floats. Sums are added up
// in double, token after token. What is no number stays none. REQUIRES: not kRank.
void pool_rows(Pooling pooling, const float* rows, size_t n, size_t n_embd, float* out) noexcept;

bool all_finite(std::span<const float> values) noexcept;

}  // namespace billow::engine
