// Q2_0: 64 elements in 18 bytes.
//   bytes 0-1   f16 scale d
//   bytes 2-17  element i is at bit 2 (i % 4) of byte i / 4
//   x = d * (code - 1), codes 0..3
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q2_0 {
  struct Group {
    uint8_t scale[2];
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kQ2_0;
  static constexpr std::string_view kName = "Q2_0";
  static constexpr size_t kGroupLen = 64;
  static constexpr size_t kGroupBytes = 18;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 2};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      out[i] = d * static_cast<float>(((group.codes[i / 4] >> (i % 4 * 2)) & 3) - 1);
    }
  }

  // The scale is the max magnitude, so no element gets the code 3.
  static void encode(const float* in, Group& group) noexcept {
    const float d = std::fabs(extreme_of(in, kGroupLen));
    const float inverse = reciprocal_or_zero(d);
    group = {};
    store_f16(d, group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = code_away_from_zero(in[i] * inverse, -1, 2) + 1;
      group.codes[i / 4] |= static_cast<uint8_t>(code << (i % 4 * 2));
    }
  }

  // The packed form has codes -2..1, so codes and scale change their signs.
  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    // Moves a byte's four codes into the bytes of a word. Then each byte becomes 1 - code.
#pragma GCC unroll 1
    for (size_t i = 0; i < 16; ++i) {
      const uint32_t byte = group.codes[i];
      const uint32_t four = (byte & 0x3u) | ((byte << 6) & 0x300u) | ((byte << 12) & 0x30000u) |
                            ((byte << 18) & 0x3000000u);
      const uint32_t word = (0x81818181u - four) ^ 0x80808080u;
      __builtin_memcpy(codes + 4 * i, &word, sizeof word);
    }
    fill<Isa, 4>(scales, -unpack_f16<Isa>(group.scale));
    fill<Isa, 4>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
