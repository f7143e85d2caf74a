// The online softmax over one span (Milakov and Gimelshein, arXiv 1805.02867), in powers of two,
// and the merging of spans. A partial result is partial_floats(v_len) floats: the output so far,
// the lanes of the sum of weights, the max score, the sum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

constexpr float kLowest = -3.0e38f;
constexpr float kLog2E = 1.44269504f;
constexpr size_t kMaximumAt = 16;  // after the output
constexpr size_t kSumAt = 17;

// 2^x for x <= 0, to 1e-7 of the value, exactly 1 for 0: 2^n times a polynomial of degree 5 in the
// rest of x, with minimal max relative error. 0, or a denormal number, below -126.5.
inline F exponential2(F x) noexcept {
  const F clamped = Isa::max(x, Isa::set1(-127.0f));
  const F n = Isa::round(clamped);
  const F r = clamped - n;
  F p = Isa::set1(1.3264727e-3f);
  p = Isa::fma(p, r, Isa::set1(9.6715127e-3f));
  p = Isa::fma(p, r, Isa::set1(5.5507337e-2f));
  p = Isa::fma(p, r, Isa::set1(2.4022242e-1f));
  p = Isa::fma(p, r, Isa::set1(6.9314698e-1f));
  p = Isa::fma(p, r, Isa::set1(1.0f));
  return p * Isa::power_of_two(n);
}

inline void clear_partial(float* partial, size_t v_len) noexcept {
  for (size_t i = 0; i < partial_floats(v_len); i += Isa::kLanes)
    Isa::store(partial + i, Isa::zero());
  partial[v_len + kMaximumAt] = kLowest;
}

// Replaces lanes of x for positions outside [begin, end) with `other`.
inline F only_visible(F x, size_t at, size_t begin, size_t end, F other) noexcept {
  if (end < at + Isa::kLanes) x = Isa::keep_first(x, end > at ? end - at : 0, other);
  if (begin > at) {
    x = Isa::keep_first(other, begin - at < Isa::kLanes ? begin - at : Isa::kLanes, x);
  }
  return x;
}

// Turns a row's scores at positions [from, to), which are exponents of two, into weights 2^(score -
// maximum). The row sees [begin, end); weights outside become 0. Updates maximum and sum. Returns
// the factor that shrinks the earlier sums.
[[gnu::always_inline]] inline float weigh_row(float* scores, size_t from, size_t to, size_t begin,
                                              size_t end, float softcap, float* tail) noexcept {
  if (begin >= end) {
    for (size_t at = from; at < to; at += Isa::kLanes) Isa::store(scores + at, Isa::zero());
    return 1.0f;
  }
  const bool whole = begin <= from && end >= to;
  const F lowest = Isa::set1(kLowest);
  F largest = lowest;
  for (size_t at = from; at < to; at += Isa::kLanes) {
    F score = Isa::load(scores + at);
    if (softcap > 0.0f) score = Isa::set1(softcap * kLog2E) * hyperbolic_tangent(score);
    if (!whole) score = only_visible(score, at, begin, end, lowest);
    if (softcap > 0.0f || !whole) Isa::store(scores + at, score);
    largest = Isa::max(largest, score);
  }
  float maximum = tail[kMaximumAt];
  float shrink = 1.0f;
  if (Isa::any_above(largest, Isa::set1(maximum))) {
    const float before = maximum;
    maximum = Isa::largest(largest);
    shrink = Isa::first(exponential2(Isa::set1(before - maximum)));
    tail[kMaximumAt] = maximum;
  }
  F sum = Isa::zero();
  for (size_t at = from; at < to; at += Isa::kLanes) {
    F weight = exponential2(Isa::load(scores + at) - Isa::set1(maximum));
    if (!whole) weight = only_visible(weight, at, begin, end, Isa::zero());
    Isa::store(scores + at, weight);
    sum = sum + weight;
  }
  Isa::store(tail, Isa::fma(Isa::load(tail), Isa::set1(shrink), sum));
  return shrink;
}

// Adds ALiBi to the scores at positions `start` + [from, to) of a row at `position`. `slope` is in
// powers of two.
inline void add_distance(float* scores, size_t from, size_t to, size_t start, size_t position,
                         float slope) noexcept {
  const float offset = static_cast<float>(start) - static_cast<float>(position);
  for (size_t at = from; at < to; ++at) scores[at] += slope * (offset + static_cast<float>(at));
}

// Ends a span: computes the sum of all lanes.
inline void close_partial(float* partial, size_t v_len) noexcept {
  partial[v_len + kSumAt] = Isa::sum(Isa::load(partial + v_len));
}

// into += from, both closed. A partial result without visible positions has the sum 0.
inline void merge_partial(float* into, const float* from, size_t v_len) noexcept {
  if (from[v_len + kSumAt] == 0.0f) return;
  if (into[v_len + kSumAt] == 0.0f) {
    __builtin_memcpy(into, from, partial_floats(v_len) * sizeof(float));
    return;
  }
  const float mine = into[v_len + kMaximumAt];
  const float theirs = from[v_len + kMaximumAt];
  const float maximum = mine > theirs ? mine : theirs;
  const F a = exponential2(Isa::set1(mine - maximum));
  const F b = exponential2(Isa::set1(theirs - maximum));
  for (size_t i = 0; i < v_len; i += Isa::kLanes) {
    Isa::store(into + i, Isa::fma(Isa::load(into + i), a, Isa::load(from + i) * b));
  }
  const F sum = Isa::fma(Isa::set1(into[v_len + kSumAt]), a, Isa::set1(from[v_len + kSumAt]) * b);
  into[v_len + kSumAt] = Isa::first(sum);
  into[v_len + kMaximumAt] = maximum;
}

// `sink` is a score without a value, in powers of two; kLowest: no sink.
inline void write_output(const float* partial, size_t v_len, float sink, float* out) noexcept {
  float shrink = 1.0f;
  float sum = partial[v_len + kSumAt];
  if (sink > kLowest) {
    const float mine = partial[v_len + kMaximumAt];
    const float maximum = mine > sink ? mine : sink;
    shrink = Isa::first(exponential2(Isa::set1(mine - maximum)));
    sum = sum * shrink + Isa::first(exponential2(Isa::set1(sink - maximum)));
  }
  const F factor = Isa::set1(shrink / sum);
  for (size_t i = 0; i < v_len; i += Isa::kLanes) {
    Isa::store(out + i, Isa::load(partial + i) * factor);
  }
}

}  // namespace
}  // namespace billow::kernels
