// TQ2_0: 256 elements in 66 bytes.
//   bytes 0-63   element 128 h + 32 n + j is at bit 2 n of byte 32 h + j
//   bytes 64-65  f16 scale d
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

struct TQ2_0 {
  struct Group {
    uint8_t codes[64];
    uint8_t scale[2];
  };

  static constexpr Type kType = Type::kTQ2_0;
  static constexpr std::string_view kName = "TQ2_0";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 66;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 2};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = (group.codes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
      out[i] = d * static_cast<float>(code - 1);
    }
  }

  // The scale is the max magnitude, so no element gets the code 3.
  static void encode(const float* in, Group& group) noexcept {
    const float d = std::fabs(extreme_of(in, kGroupLen));
    const float inverse = reciprocal_or_zero(d);
    group = {};
    store_f16(d, group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = code_away_from_zero(in[i] * inverse, -1, 1) + 1;
      group.codes[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(code << (i / 32 % 4 * 2));
    }
  }

  // The packed form has codes -2..1, so codes and scale change their signs.
  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    for (size_t h = 0; h < 2; ++h) {
      const uint8_t* packed = group.codes + 32 * h;
      int8_t* __restrict out = codes + 128 * h;
      for (size_t l = 0; l < 32; ++l) {
        out[l] = static_cast<int8_t>(1 - (packed[l] & 3));
        out[l + 32] = static_cast<int8_t>(1 - ((packed[l] >> 2) & 3));
        out[l + 64] = static_cast<int8_t>(1 - ((packed[l] >> 4) & 3));
        out[l + 96] = static_cast<int8_t>(1 - (packed[l] >> 6));
      }
    }
    fill<Isa, 16>(scales, -unpack_f16<Isa>(group.scale));
    fill<Isa, 16>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
