// The arithmetic of the searches on vectors, one group per lane. The file of each instruction set
// defines BILLOW_FITS_LANES, the number of lanes of a vector, and includes fits.inl.h. Without that
// number, a vector has 4 lanes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/half.h"

#ifndef BILLOW_FITS_LANES
#define BILLOW_FITS_LANES 4
#endif

namespace billow::quantize {
namespace {

constexpr size_t kLanes = BILLOW_FITS_LANES;

using Floats = float __attribute__((vector_size(sizeof(float) * kLanes)));
using Ints = int32_t __attribute__((vector_size(sizeof(int32_t) * kLanes)));

// A part whose values are all below this counts as zero.
constexpr float kNothing = 1e-15f;

#define BILLOW_LANES static inline __attribute__((always_inline))

BILLOW_LANES Floats all(float value) noexcept { return Floats{} + value; }
BILLOW_LANES Ints all(int value) noexcept { return Ints{} + value; }

BILLOW_LANES Floats absolute(const Floats& x) noexcept {
  return reinterpret_cast<Floats>(reinterpret_cast<Ints>(x) & 0x7FFFFFFF);
}

BILLOW_LANES Floats root(const Floats& x) noexcept {
  Floats y;
  for (size_t i = 0; i < kLanes; ++i) y[i] = __builtin_sqrtf(x[i]);
  return y;
}

BILLOW_LANES Floats to_floats(const Ints& x) noexcept { return __builtin_convertvector(x, Floats); }

// Returns the nearest integer, half to even, by adding a number whose last bit counts ones. Beyond
// 2^22 the result is arbitrary, but always the same.
BILLOW_LANES Ints rounded(const Floats& x) noexcept {
  const Ints bits = reinterpret_cast<Ints>(x + 12582912.0f);
  return (bits & 0x007FFFFF) - 0x00400000;
}

BILLOW_LANES Ints clamped(const Ints& x, int min, int max) noexcept {
  const Ints low = x < min ? all(min) : x;
  return low > max ? all(max) : low;
}

BILLOW_LANES bool any(const Ints& mask) noexcept {
  int32_t found = 0;
  for (size_t i = 0; i < kLanes; ++i) found |= mask[i];
  return found != 0;
}

BILLOW_LANES Floats rounded_f16(const Floats& x) noexcept {
  Floats y;
  for (size_t i = 0; i < kLanes; ++i) y[i] = quant::f16_to_f32(quant::f32_to_f16(x[i]));
  return y;
}

// Returns the value of the largest magnitude; the first of equals.
template <size_t n>
BILLOW_LANES Floats extreme(const Floats* x) noexcept {
  Floats size = all(0.0f);
  Floats value = all(0.0f);
  for (size_t i = 0; i < n; ++i) {
    const Floats own = absolute(x[i]);
    const Ints larger = own > size;
    size = larger ? own : size;
    value = larger ? x[i] : value;
  }
  return value;
}

// ---- Signed codes.

struct SignedFit {
  Floats scale;
  Floats inverse;  // a code is the integer nearest to inverse * x
  Ints zero;       // lanes whose values are all zero
};

BILLOW_LANES Ints signed_code(const Floats& x, const SignedFit& fit, int n_steps) noexcept {
  const Ints code = clamped(rounded(fit.inverse * x), -n_steps, n_steps - 1);
  return fit.zero ? all(-n_steps) : code;
}

struct SquareSums {
  Floats wxq;
  Floats wqq;
};

template <size_t n>
BILLOW_LANES SquareSums signed_sums(const Floats* x, const Floats* w, const Floats& inverse,
                                    int n_steps) noexcept {
  SquareSums sums = {all(0.0f), all(0.0f)};
  for (size_t i = 0; i < n; ++i) {
    const Floats code = to_floats(clamped(rounded(inverse * x[i]), -n_steps, n_steps - 1));
    sums.wxq += w[i] * x[i] * code;
    sums.wqq += w[i] * code * code;
  }
  return sums;
}

// Finds the scale with the smallest weighted error, among scales that map the largest magnitude to
// a code near -n_steps.
template <size_t n>
BILLOW_LANES SignedFit fit_signed(const Floats* x, const Floats* w, int n_steps) noexcept {
  const Floats largest = extreme<n>(x);
  const auto steps = static_cast<float>(n_steps);
  SignedFit fit;
  fit.zero = absolute(largest) < kNothing;
  fit.inverse = -steps / largest;
  SquareSums sums = signed_sums<n>(x, w, fit.inverse, n_steps);
  fit.scale = sums.wqq != 0.0f ? sums.wxq / sums.wqq : all(0.0f);
  Floats best = fit.scale * sums.wxq;
  for (int trial = -9; trial <= 9; ++trial) {
    if (trial == 0) continue;
    const Floats inverse = -(steps + 0.1f * static_cast<float>(trial)) / largest;
    sums = signed_sums<n>(x, w, inverse, n_steps);
    const Ints better = (sums.wqq > 0.0f) & (sums.wxq * sums.wxq > best * sums.wqq);
    const Floats scale = sums.wxq / sums.wqq;
    fit.scale = better ? scale : fit.scale;
    best = better ? scale * sums.wxq : best;
    fit.inverse = better ? inverse : fit.inverse;
  }
  fit.scale = fit.zero ? all(0.0f) : fit.scale;
  return fit;
}

// Takes codes from the range. Then moves each code in turn if that explains more of the sum of
// squares. Returns the scale. The codes are stored plus n_steps.
template <size_t n>
BILLOW_LANES Floats fit_refined(const Floats* x, int n_steps, Ints* codes) noexcept {
  const Floats largest = extreme<n>(x);
  const Ints zero = absolute(largest) < kNothing;
  const Floats inverse = -static_cast<float>(n_steps) / largest;
  Floats wxq = all(0.0f);
  Floats wqq = all(0.0f);
  for (size_t i = 0; i < n; ++i) {
    codes[i] = clamped(rounded(inverse * x[i]), -n_steps, n_steps - 1);
    const Floats code = to_floats(codes[i]);
    const Floats w = x[i] * x[i];
    wxq += w * x[i] * code;
    wqq += w * code * code;
  }
  for (int pass = 0; pass < 5; ++pass) {
    Ints changed = all(0);
    for (size_t i = 0; i < n; ++i) {
      const Floats w = x[i] * x[i];
      const Floats code = to_floats(codes[i]);
      const Floats other_wxq = wxq - w * x[i] * code;
      const Floats other_wqq = wqq - w * code * code;
      const Ints wanted = clamped(rounded(x[i] * other_wqq / other_wxq), -n_steps, n_steps - 1);
      const Floats wanted_code = to_floats(wanted);
      const Floats new_wxq = other_wxq + w * x[i] * wanted_code;
      const Floats new_wqq = other_wqq + w * wanted_code * wanted_code;
      const Ints better = (other_wxq > 0.0f) & (wanted != codes[i]) & (new_wqq > 0.0f) &
                          (new_wxq * new_wxq * wqq > wxq * wxq * new_wqq);
      codes[i] = better ? wanted : codes[i];
      wxq = better ? new_wxq : wxq;
      wqq = better ? new_wqq : wqq;
      changed |= better;
    }
    if (!any(changed)) break;
  }
  for (size_t i = 0; i < n; ++i) codes[i] = zero ? all(0) : codes[i] + n_steps;
  const Floats scale = wqq > 0.0f ? wxq / wqq : all(0.0f);
  return zero ? all(0.0f) : scale;
}

// ---- Codes from 0 up, with a minimum.

struct AffineSearch {
  int max_code;
  float first;  // first trial: how many codes more or less the range is cut into
  float step;
  int n_trials;
  bool absolute_error;  // instead of the squared error
};

struct AffineLine {
  Floats scale;
  Floats min;      // 0 or more; it is subtracted
  Floats inverse;  // a code is the integer nearest to inverse * (x - base)
  Floats base;
  Ints flat;  // lanes where all codes are 0
};

BILLOW_LANES Ints affine_code(const Floats& x, const AffineLine& line, int max_code) noexcept {
  const Ints code = clamped(rounded(line.inverse * (x - line.base)), 0, max_code);
  return line.flat ? all(0) : code;
}

template <size_t n>
BILLOW_LANES AffineLine fit_affine_part(const Floats* x, const Floats* w,
                                        const AffineSearch& search) noexcept {
  const auto max_code = static_cast<float>(search.max_code);
  Floats min = x[0];
  Floats max = x[0];
  Floats sum_w = w[0];
  Floats sum_x = sum_w * x[0];
  for (size_t i = 1; i < n; ++i) {
    min = x[i] < min ? x[i] : min;
    max = x[i] > max ? x[i] : max;
    sum_w += w[i];
    sum_x += w[i] * x[i];
  }
  min = min > 0.0f ? all(0.0f) : min;
  AffineLine line;
  line.flat = max <= min;
  line.base = min;
  line.inverse = max_code / (max - min);
  line.scale = 1.0f / line.inverse;
  Floats error = all(0.0f);
  Floats codes[n];
  const auto error_of = [&](const Floats& code, size_t i, const Floats& scale, const Floats& at)
                            __attribute__((always_inline)) {
                              const Floats off = scale * code + at - x[i];
                              return w[i] * (search.absolute_error ? absolute(off) : off * off);
                            };
  for (size_t i = 0; i < n; ++i) {
    const Floats code =
        to_floats(clamped(rounded(line.inverse * (x[i] - min)), 0, search.max_code));
    error += error_of(code, i, line.scale, min);
  }
  const Floats flat_min = min;
  for (int trial = 0; trial <= search.n_trials; ++trial) {
    const Floats inverse =
        (search.first + search.step * static_cast<float>(trial) + max_code) / (max - min);
    Floats sum_q = all(0.0f);
    Floats sum_qq = all(0.0f);
    Floats sum_xq = all(0.0f);
    for (size_t i = 0; i < n; ++i) {
      const Floats code = to_floats(clamped(rounded(inverse * (x[i] - min)), 0, search.max_code));
      codes[i] = code;
      sum_q += w[i] * code;
      sum_qq += w[i] * code * code;
      sum_xq += w[i] * code * x[i];
    }
    const Floats determinant = sum_w * sum_qq - sum_q * sum_q;
    Floats scale = (sum_w * sum_xq - sum_x * sum_q) / determinant;
    Floats at = (sum_qq * sum_x - sum_q * sum_xq) / determinant;
    const Ints above = at > 0.0f;
    scale = above ? sum_xq / sum_qq : scale;
    at = above ? all(0.0f) : at;
    Floats own_error = all(0.0f);
    for (size_t i = 0; i < n; ++i) own_error += error_of(codes[i], i, scale, at);
    const Ints better = (determinant > 0.0f) & (own_error < error);
    error = better ? own_error : error;
    line.scale = better ? scale : line.scale;
    line.inverse = better ? inverse : line.inverse;
    line.base = better ? min : line.base;
    min = better ? at : min;
  }
  line.scale = line.flat ? all(0.0f) : line.scale;
  line.min = -(line.flat ? flat_min : min);
  return line;
}

// Turns scales or minima, 0 or more, into integers 0..max_code of one scale. Returns that scale.
template <size_t n>
BILLOW_LANES Floats fit_positive(const Floats* x, const Floats* w, int max_code,
                                 Ints* codes) noexcept {
  const auto steps = static_cast<float>(max_code);
  Floats max = all(0.0f);
  for (size_t i = 0; i < n; ++i) max = max > x[i] ? max : x[i];
  const Ints zero = max < kNothing;
  Floats inverse = steps / max;
  const Floats first_scale = 1.0f / inverse;
  Floats error = all(0.0f);
  for (size_t i = 0; i < n; ++i) {
    const Floats off = x[i] - first_scale * to_floats(rounded(inverse * x[i]) & 255);
    error += w[i] * off * off;
  }
  for (int trial = -4; trial <= 4; ++trial) {
    if (trial == 0) continue;
    const Floats own_inverse = (0.1f * static_cast<float>(trial) + steps) / max;
    const Floats scale = 1.0f / own_inverse;
    Floats own_error = all(0.0f);
    for (size_t i = 0; i < n; ++i) {
      const Ints code = rounded(own_inverse * x[i]);
      const Floats off = x[i] - scale * to_floats(code > max_code ? all(max_code) : code);
      own_error += w[i] * off * off;
    }
    const Ints better = own_error < error;
    error = better ? own_error : error;
    inverse = better ? own_inverse : inverse;
  }
  Floats wxq = all(0.0f);
  Floats wqq = all(0.0f);
  for (size_t i = 0; i < n; ++i) {
    Ints code = rounded(inverse * x[i]);
    code = code > max_code ? all(max_code) : code;
    codes[i] = code & 255;
    const Floats level = to_floats(code);
    wxq += w[i] * x[i] * level;
    wqq += w[i] * level * level;
  }
  for (int pass = 0; pass < 5; ++pass) {
    Ints changed = all(0);
    for (size_t i = 0; i < n; ++i) {
      const Floats code = to_floats(codes[i]);
      const Floats other_wxq = wxq - w[i] * x[i] * code;
      const Floats other_wqq = wqq - w[i] * code * code;
      Ints wanted = rounded(x[i] * other_wqq / other_wxq);
      wanted = wanted > max_code ? all(max_code) : wanted;
      const Floats level = to_floats(wanted);
      const Floats new_wxq = other_wxq + w[i] * x[i] * level;
      const Floats new_wqq = other_wqq + w[i] * level * level;
      const Ints better = (other_wxq > 0.0f) & (other_wqq > 0.0f) & (wanted != codes[i]) &
                          (new_wxq * new_wxq * wqq > wxq * wxq * new_wqq);
      codes[i] = better ? wanted & 255 : codes[i];
      wxq = better ? new_wxq : wxq;
      wqq = better ? new_wqq : wqq;
      changed |= better;
    }
    if (!any(changed)) break;
  }
  for (size_t i = 0; i < n; ++i) codes[i] = zero ? all(0) : codes[i];
  const Floats scale = wqq > 0.0f ? wxq / wqq : all(0.0f);
  return zero ? all(0.0f) : scale;
}

// ---- Codes that are indices into a table of values.

struct CodebookLanes {
  explicit CodebookLanes(const int8_t* table) noexcept {
    for (size_t i = 0; i < 16; ++i) values[i] = static_cast<float>(table[i]);
    for (size_t i = 0; i < 15; ++i) bounds[i] = 0.5f * (values[i] + values[i + 1]);
  }
  float values[16];
  float bounds[15];  // from bounds[i] on, values[i + 1] is the nearest

  Floats nearest_value(const Floats& x) const noexcept {
    Floats value = all(values[0]);
    for (size_t i = 0; i < 15; ++i) {
      value += x >= bounds[i] ? all(values[i + 1] - values[i]) : all(0.0f);
    }
    return value;
  }
  Ints nearest(const Floats& x) const noexcept {
    Ints code = all(0);
    for (const float bound : bounds) code -= x >= bound;
    return code;
  }
};

template <size_t n>
BILLOW_LANES SquareSums codebook_sums(const Floats* x, const Floats* w, const Floats& inverse,
                                      const CodebookLanes& table) noexcept {
  SquareSums sums = {all(0.0f), all(0.0f)};
  for (size_t i = 0; i < n; ++i) {
    const Floats value = table.nearest_value(inverse * x[i]);
    sums.wxq += w[i] * value * x[i];
    sums.wqq += w[i] * value * value;
  }
  return sums;
}

template <size_t n>
BILLOW_LANES Floats fit_codebook_part(const Floats* x, const Floats* w,
                                      const CodebookLanes& table) noexcept {
  constexpr int kTrials = 7;
  const Floats largest = extreme<n>(x);
  const Ints zero = absolute(largest) < kNothing;
  Floats scale = -largest / table.values[0];
  SquareSums sums = codebook_sums<n>(x, w, 1.0f / scale, table);
  scale = sums.wqq > 0.0f ? sums.wxq / sums.wqq : all(0.0f);
  Floats best = scale * sums.wxq;
  for (int trial = -kTrials; trial <= kTrials; ++trial) {
    const Floats inverse = (static_cast<float>(trial) + table.values[0]) / largest;
    sums = codebook_sums<n>(x, w, inverse, table);
    const Ints better = (sums.wqq > 0.0f) & (sums.wxq * sums.wxq > best * sums.wqq);
    const Floats own = sums.wxq / sums.wqq;
    scale = better ? own : scale;
    best = better ? own * sums.wxq : best;
  }
  return zero ? all(0.0f) : scale;
}

}  // namespace
}  // namespace billow::quantize
