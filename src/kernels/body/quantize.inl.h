// Quantizes activations to the integer layout of kernel_table.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Quantizes 32 floats to codes; returns their scale. If a value is not finite, all become NaN. If
// the max is below 1e-30, all become 0.
inline float quantize_block(const float* x, int8_t* codes) noexcept {
  F extreme = Isa::zero();
  for (size_t i = 0; i < kActivationGroup; i += Isa::kLanes)
    extreme = Isa::greater_magnitude(extreme, Isa::load(x + i));
  const float largest = Isa::max_magnitude(extreme);
  const bool finite = largest <= 3.4e38f;
  const bool usable = finite && largest >= 1e-30f;
  const F inverse = Isa::set1(usable ? 127.0f / largest : 0.0f);
  for (size_t i = 0; i < kActivationGroup; i += Isa::kLanes) {
    const F v = usable ? Isa::load(x + i) * inverse : Isa::zero();
    Isa::store_codes(codes + i, v);
  }
  if (!finite) return __builtin_nanf("");
  return usable ? largest * (1.0f / 127.0f) : 0.0f;
}

void quantize_group(const float* const* rows, size_t n_rows, size_t k, std::byte* out) noexcept {
  for (size_t i = 0; i < padded(k); i += kActivationGroup, out += n_rows * kActivationRowBytes) {
    auto* codes = reinterpret_cast<int8_t*>(out);
    auto* scales = reinterpret_cast<float*>(out + n_rows * kActivationGroup);
    for (size_t row = 0; row < n_rows; ++row) {
      const float* values = rows[row] + i;
      // Rows often come from other cores, and few processors can follow that many streams.
      __builtin_prefetch(values + 4 * kActivationGroup);
      __builtin_prefetch(values + 4 * kActivationGroup + 16);
      float last[kActivationGroup];
      if (i + kActivationGroup > k) {
        __builtin_memset(last, 0, sizeof last);
        if (i < k) __builtin_memcpy(last, values, (k - i) * sizeof(float));
        values = last;
      }
      scales[row] = quantize_block(values, codes + row * kActivationGroup);
    }
    auto* negative = reinterpret_cast<int32_t*>(scales + n_rows);
    float* sums = scales + 4 * n_rows;
    for (size_t row = 0; row < n_rows; ++row) {
      int32_t halves[2];
      Isa::sum_codes(codes + row * kActivationGroup, halves);
      const int32_t totals[3] = {halves[0], halves[1], halves[0] + halves[1]};
      for (size_t which = 0; which < 3; ++which) {
        negative[which * n_rows + row] = -totals[which];
        sums[which * n_rows + row] = scales[row] * static_cast<float>(totals[which]);
      }
    }
  }
}

}  // namespace
}  // namespace billow::kernels
