// Q8_K: 256 elements in 292 bytes. Rare in files; other programs use this form for activations.
//   bytes 0-3      f32 scale d
//   bytes 4-259    byte i holds element i, signed
//   bytes 260-291  sums of 16 codes each, signed 16 bits, little-endian; redundant, ignored here
//   x = d * code
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q8_K {
  struct Group {
    uint8_t scale[4];
    int8_t codes[256];
    uint8_t sums[32];
  };

  static constexpr Type kType = Type::kQ8_K;
  static constexpr std::string_view kName = "Q8_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 292;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 8};

  static void decode(const Group& group, float* out) noexcept {
    float d;
    std::memcpy(&d, group.scale, sizeof d);
    for (size_t i = 0; i < kGroupLen; ++i) out[i] = d * static_cast<float>(group.codes[i]);
  }

  // The element of max magnitude becomes code -127, so the scale has the opposite sign.
  static void encode(const float* in, Group& group) noexcept {
    const float extreme = extreme_of(in, kGroupLen);
    group = {};
    if (extreme == 0.0f) return;
    const float inverse = -127.0f / extreme;
    const float d = 1.0f / inverse;
    std::memcpy(group.scale, &d, sizeof d);
    int16_t sums[16] = {};
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = rounded_code(inverse * in[i], -127, 127);
      group.codes[i] = static_cast<int8_t>(code);
      sums[i / 16] = static_cast<int16_t>(sums[i / 16] + code);
    }
    std::memcpy(group.sums, sums, sizeof sums);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    float d;
    __builtin_memcpy(&d, group.scale, sizeof d);
    __builtin_memcpy(codes, group.codes, sizeof group.codes);
    fill<Isa, 16>(scales, d);
    fill<Isa, 16>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
