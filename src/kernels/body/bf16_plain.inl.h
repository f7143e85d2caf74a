// The rounding vocabulary in plain C++. Vocabulary:
//   store(to, x)      stores the lanes of x as BF16, to nearest, ties to even; NaN stays NaN
//   pairs(even, odd)  the same for two vectors, in the low and high half of each lane
// Instructions treat denormal numbers as 0; this code does not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/vocabulary.inl.h"

namespace billow::kernels {
namespace {

struct Bf16 {
  static uint16_t of(float x) noexcept {
    const uint32_t bits = __builtin_bit_cast(uint32_t, x);
    const uint32_t rounded = bits + 0x7FFFu + ((bits >> 16) & 1u);
    const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
    return static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16);
  }
  static void store(uint16_t* to, F x) noexcept {
    float lanes[Isa::kLanes];
    Isa::store(lanes, x);
    for (size_t i = 0; i < Isa::kLanes; ++i) to[i] = of(lanes[i]);
  }
  static Isa::Bytes pairs(F even, F odd) noexcept {
    float lanes[2][Isa::kLanes];
    Isa::store(lanes[0], even);
    Isa::store(lanes[1], odd);
    uint16_t words[Isa::kLanes][2];
    for (size_t i = 0; i < Isa::kLanes; ++i)
      for (size_t half = 0; half < 2; ++half) words[i][half] = of(lanes[half][i]);
    return Isa::load_bytes(reinterpret_cast<const uint8_t*>(words));
  }
};

}  // namespace
}  // namespace billow::kernels
