// Q8_0: 32 elements in 34 bytes.
//   bytes 0-1   f16 scale d
//   bytes 2-33  byte i holds element i, signed
//   x = d * code
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q8_0 {
  struct Group {
    uint8_t scale[2];
    int8_t codes[32];
  };

  static constexpr Type kType = Type::kQ8_0;
  static constexpr std::string_view kName = "Q8_0";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 34;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 8};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) out[i] = d * static_cast<float>(group.codes[i]);
  }

  // Codes are computed with the scale before its rounding to f16; halves round away from zero.
  static void encode(const float* in, Group& group) noexcept {
    const float max_abs = std::fabs(extreme_of(in, kGroupLen));
    const float d = max_abs / 127.0f;
    const float inverse = reciprocal_or_zero(d);
    store_f16(d, group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = rounded_code(std::round(in[i] * inverse), -127, 127);
      group.codes[i] = static_cast<int8_t>(code);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    __builtin_memcpy(codes, group.codes, sizeof group.codes);
    fill<Isa, 2>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 2>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
