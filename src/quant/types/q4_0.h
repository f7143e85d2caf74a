// Q4_0: 32 elements in 18 bytes.
//   bytes 0-1   f16 scale d
//   bytes 2-17  byte j holds element j in its low and element j + 16 in its high half
//   x = d * (code - 8), codes 0..15
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q4_0 {
  struct Group {
    uint8_t scale[2];
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kQ4_0;
  static constexpr std::string_view kName = "Q4_0";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 18;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>((group.codes[j] & 15) - 8);
      out[j + 16] = d * static_cast<float>((group.codes[j] >> 4) - 8);
    }
  }

  // The element of max magnitude becomes code 0, so the scale has the opposite sign.
  static void encode(const float* in, Group& group) noexcept {
    const float extreme = extreme_of(in, kGroupLen);
    const float d = extreme / -8.0f;
    const float inverse = reciprocal_or_zero(d);
    uint8_t codes[kGroupLen];
    for (size_t i = 0; i < kGroupLen; ++i) codes[i] = truncated_code(in[i] * inverse + 8.5f, 15);
    store(d, codes, group);
  }

  static void store(float d, const uint8_t* codes, Group& group) noexcept {
    store_f16(d, group.scale);
    for (size_t j = 0; j < 16; ++j) {
      group.codes[j] = static_cast<uint8_t>(codes[j] | (codes[j + 16] << 4));
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
#pragma GCC unroll 1
    for (size_t j = 0; j < 16; ++j) {
      codes[j] = static_cast<int8_t>((group.codes[j] & 15) - 8);
      codes[j + 16] = static_cast<int8_t>((group.codes[j] >> 4) - 8);
    }
    fill<Isa, 2>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 2>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
