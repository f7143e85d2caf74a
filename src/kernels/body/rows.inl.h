// Kernels that process one row.
#pragma once

#include <cstddef>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

void rms_norm(const float* x, const float* weight, size_t n, float eps, float* out) noexcept {
  F squares = Isa::zero();
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F v = load_lanes(x + i, lanes);
    squares = Isa::fma(v, v, squares);
  });
  const float mean = Isa::sum(squares) / static_cast<float>(n);
  const F factor = Isa::set1(1.0f / __builtin_sqrtf(mean + eps));
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(out + i, load_lanes(x + i, lanes) * factor * load_lanes(weight + i, lanes), lanes);
  });
}

void layer_norm(const float* x, const float* residual, const float* weight, const float* bias,
                size_t n, float eps, float* out) noexcept {
  F sums = Isa::zero();
  for_vectors(n, [&](size_t i, size_t lanes) {
    F v = load_lanes(x + i, lanes);
    if (residual != nullptr) v = v + load_lanes(residual + i, lanes);
    store_lanes(out + i, v, lanes);
    sums = sums + v;
  });
  const F mean = Isa::set1(Isa::sum(sums) / static_cast<float>(n));
  F squares = Isa::zero();
  for_vectors(n, [&](size_t i, size_t lanes) {
    F v = load_lanes(out + i, lanes) - mean;
    if (lanes < Isa::kLanes) v = Isa::keep_first(v, lanes, Isa::zero());
    squares = Isa::fma(v, v, squares);
  });
  const float variance = Isa::sum(squares) / static_cast<float>(n);
  const F factor = Isa::set1(1.0f / __builtin_sqrtf(variance + eps));
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F v = (load_lanes(out + i, lanes) - mean) * factor;
    store_lanes(out + i, Isa::fma(v, load_lanes(weight + i, lanes), load_lanes(bias + i, lanes)),
                lanes);
  });
}

// Rotates the pairs of one head whose values are n_rot / 2 apart. Returns how many it rotated,
// which are whole vectors only.
inline size_t rotate_halves(float* x, size_t half, const float* cosines,
                            const float* sines) noexcept {
  size_t i = 0;
  for (; i + Isa::kLanes <= half; i += Isa::kLanes) {
    const F a = Isa::load(x + i);
    const F b = Isa::load(x + half + i);
    const F cosine = Isa::load(cosines + i);
    const F sine = Isa::load(sines + i);
    Isa::store(x + i, a * cosine - b * sine);
    Isa::store(x + half + i, a * sine + b * cosine);
  }
  return i;
}

// The same for pairs of adjacent values. I is Isa, which may lack pairs of lanes.
template <class I>
inline size_t rotate_adjacent(float* x, size_t half, const float* cosines,
                              const float* sines) noexcept {
  size_t i = 0;
  if constexpr (I::kLanes > 1) {
    for (; i + I::kLanes / 2 <= half; i += I::kLanes / 2) {
      const F v = I::load(x + 2 * i);
      I::store(x + 2 * i, v * I::load_twice(cosines + i) +
                              I::swap_pairs(v) * I::negate_even(I::load_twice(sines + i)));
    }
  }
  return i;
}

void rope(float* x, size_t n_heads, size_t head_len, size_t n_rot, RopeKind kind,
          const float* cosines, const float* sines) noexcept {
  const size_t half = n_rot / 2;
  const size_t step = kind == RopeKind::kAdjacent ? 2 : 1;
  const size_t distance = kind == RopeKind::kAdjacent ? 1 : half;
  for (size_t h = 0; h < n_heads; ++h, x += head_len) {
    size_t i = kind == RopeKind::kAdjacent ? rotate_adjacent<Isa>(x, half, cosines, sines)
                                           : rotate_halves(x, half, cosines, sines);
    for (; i < half; ++i) {
      const float a = x[i * step];
      const float b = x[i * step + distance];
      x[i * step] = a * cosines[i] - b * sines[i];
      x[i * step + distance] = a * sines[i] + b * cosines[i];
    }
  }
}

void silu_multiply(float* gate, const float* up, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F g = load_lanes(gate + i, lanes);
    const F silu = g / (Isa::set1(1.0f) + exponential(Isa::zero() - g));
    store_lanes(gate + i, silu * load_lanes(up + i, lanes), lanes);
  });
}

// The tanh form of GELU: Hendrycks and Gimpel, arXiv 1606.08415.
inline F gelu_by_tanh(F x) noexcept {
  const F inner = Isa::set1(0.79788456f) * Isa::fma(Isa::set1(0.044715f) * x * x, x, x);
  return Isa::set1(0.5f) * x * (Isa::set1(1.0f) + hyperbolic_tangent(inner));
}

void gelu_multiply(float* gate, const float* up, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(gate + i, gelu_by_tanh(load_lanes(gate + i, lanes)) * load_lanes(up + i, lanes),
                lanes);
  });
}

void gelu_tanh(float* x, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, gelu_by_tanh(load_lanes(x + i, lanes)), lanes);
  });
}

inline F sigmoid(F x) noexcept {
  return Isa::set1(1.0f) / (Isa::set1(1.0f) + exponential(Isa::zero() - x));
}

void clamped_silu_multiply(float* gate, const float* up, size_t n, float limit) noexcept {
  const F max = Isa::set1(limit);
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F g = Isa::min(load_lanes(gate + i, lanes), max);
    const F u = Isa::max(Isa::min(load_lanes(up + i, lanes), max), Isa::zero() - max);
    const F swish = g * sigmoid(Isa::set1(1.702f) * g);
    store_lanes(gate + i, Isa::fma(swish, u, swish), lanes);
  });
}

void sigmoid_multiply(float* x, const float* gate, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, load_lanes(x + i, lanes) * sigmoid(load_lanes(gate + i, lanes)), lanes);
  });
}

// x * Phi(x), with erf(z) = z P(z^2) / Q(z^2), fitted to 2e-8 on [0, 3.9]. Below -5.5 the result is
// 0, because the rest of 1 + erf is only a rounding error.
void gelu(float* x, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    const F v = load_lanes(x + i, lanes);
    const F z = Isa::min(Isa::max(v * Isa::set1(0.70710678f), Isa::set1(-3.9f)), Isa::set1(3.9f));
    const F u = z * z;
    F p = Isa::set1(2.0504515e-6f);
    p = Isa::fma(p, u, Isa::set1(2.8744474e-4f));
    p = Isa::fma(p, u, Isa::set1(3.8363952e-3f));
    p = Isa::fma(p, u, Isa::set1(5.2965455e-2f));
    p = Isa::fma(p, u, Isa::set1(1.9193e-1f));
    p = Isa::fma(p, u, Isa::set1(1.128379f));
    F q = Isa::set1(3.8230752e-5f);
    q = Isa::fma(q, u, Isa::set1(1.1816142e-3f));
    q = Isa::fma(q, u, Isa::set1(1.5108252e-2f));
    q = Isa::fma(q, u, Isa::set1(1.1475364e-1f));
    q = Isa::fma(q, u, Isa::set1(5.034253e-1f));
    q = Isa::fma(q, u, Isa::set1(1.0f));
    const F share = Isa::keep_above(v, Isa::set1(-5.5f), Isa::fma(z, p / q, Isa::set1(1.0f)));
    store_lanes(x + i, Isa::set1(0.5f) * v * share, lanes);
  });
}

void add(float* x, const float* y, size_t n) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, load_lanes(x + i, lanes) + load_lanes(y + i, lanes), lanes);
  });
}

// NaN stays NaN, so that broken logits are noticed: the tangent alone would be finite. max() and
// min() return their second operand if one of them is NaN.
inline F softcapped(F x, float cap) noexcept {
  const F y = x / Isa::set1(cap);
  const F zero_or_nan = Isa::set1(0.0f) * Isa::min(Isa::set1(1.0f), Isa::max(Isa::set1(-1.0f), y));
  return Isa::set1(cap) * (hyperbolic_tangent(y) + zero_or_nan);
}

void softcap(float* x, size_t n, float cap) noexcept {
  for_vectors(n, [&](size_t i, size_t lanes) {
    store_lanes(x + i, softcapped(load_lanes(x + i, lanes), cap), lanes);
  });
}

}  // namespace
}  // namespace billow::kernels
