// Elementary functions of vectors.
#pragma once

#include <cstddef>

#include "kernels/body/vocabulary.inl.h"

namespace billow::kernels {
namespace {

// e^x to about 2 ulp: x = n ln 2 + r, a polynomial of degree 6 in r, times 2^n. 0 below -87.3,
// where floats end.
inline F exponential(F x) noexcept {
  const F lowest = Isa::set1(-87.3f);
  const F clamped = Isa::min(Isa::max(x, lowest), Isa::set1(88.3f));
  const F n = Isa::round(clamped * Isa::set1(1.44269504f));
  F r = Isa::fma(n, Isa::set1(-0.693359375f), clamped);
  r = Isa::fma(n, Isa::set1(2.12194440e-4f), r);
  F p = Isa::set1(1.0f / 720);
  p = Isa::fma(p, r, Isa::set1(1.0f / 120));
  p = Isa::fma(p, r, Isa::set1(1.0f / 24));
  p = Isa::fma(p, r, Isa::set1(1.0f / 6));
  p = Isa::fma(p, r, Isa::set1(0.5f));
  p = Isa::fma(p, r, Isa::set1(1.0f));
  p = Isa::fma(p, r, Isa::set1(1.0f));
  return Isa::keep_above(x, lowest, p * Isa::power_of_two(n));
}

// tanh x = 1 - 2 / (e^2x + 1)
inline F hyperbolic_tangent(F x) noexcept {
  return Isa::set1(1.0f) - Isa::set1(2.0f) / (exponential(x + x) + Isa::set1(1.0f));
}

// Calls each(i, lanes) for all vectors of n floats. `lanes` is kLanes, or the rest at the end.
template <class Each>
inline void for_vectors(size_t n, Each each) noexcept {
  size_t i = 0;
  for (; i + Isa::kLanes <= n; i += Isa::kLanes) each(i, Isa::kLanes);
  if (i < n) each(i, n - i);
}

inline F load_lanes(const float* p, size_t n) noexcept {
  return n == Isa::kLanes ? Isa::load(p) : Isa::load_first(p, n);
}

inline void store_lanes(float* p, F x, size_t n) noexcept {
  if (n == Isa::kLanes) return Isa::store(p, x);
  Isa::store_first(p, x, n);
}

}  // namespace
}  // namespace billow::kernels
