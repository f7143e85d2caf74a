// What both forms of attention within a text share: groups of queries, and weights from scores.
#pragma once

#include <cstddef>

#include "kernels/body/attention_softmax.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Calls store(i, weights) for each vector of weights, not yet divided by their sum. Weights
// past the last token are 0. Returns the factor that makes their sum 1. `factor` is the factor of
// scores times log2 e.
template <class Store>
inline float text_softmax(const float* scores, size_t n_tokens, float factor,
                          Store store) noexcept {
  F largest = Isa::set1(kLowest);
  for_vectors(n_tokens, [&](size_t i, size_t lanes) {
    F score = Isa::load(scores + i);
    if (lanes < Isa::kLanes) score = Isa::keep_first(score, lanes, Isa::set1(kLowest));
    largest = Isa::max(largest, score);
  });
  const F maximum = Isa::set1(Isa::largest(largest));
  F sum = Isa::zero();
  for_vectors(n_tokens, [&](size_t i, size_t lanes) {
    F weight = exponential2((Isa::load(scores + i) - maximum) * Isa::set1(factor));
    if (lanes < Isa::kLanes) weight = Isa::keep_first(weight, lanes, Isa::zero());
    store(i, weight);
    sum = sum + weight;
  });
  return 1.0f / Isa::sum(sum);
}

// Calls rows.run<n>(query) for the queries in groups of at most R. Groups have nearly equal sizes,
// because a last group of few rows would use the processor badly.
template <size_t R, class Rows>
inline void text_rows_of(size_t query, size_t n, Rows rows) noexcept {
  if (n == R) return rows.template run<R>(query);
  if constexpr (R > 1) text_rows_of<R - 1>(query, n, rows);
}
template <size_t R, class Rows>
inline void for_text_rows(const EncoderAttentionArgs& args, Rows rows) noexcept {
  static_assert(R <= kMaxEncoderAttentionRows);
  const size_t n = args.query_end - args.query_begin;
  const RowGroups groups = {n, (n + R - 1) / R};
  for (size_t g = 0; g < groups.n; ++g) {
    const size_t begin = groups.begin(g);
    text_rows_of<R>(args.query_begin + begin, groups.begin(g + 1) - begin, rows);
  }
}

}  // namespace
}  // namespace billow::kernels
