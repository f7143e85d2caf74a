// Q1_0: 128 elements in 18 bytes, a sign for each.
//   bytes 0-1   f16 scale d
//   bytes 2-17  element i is bit i % 8 of byte i / 8
//   x = d if the bit is set, otherwise -d
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q1_0 {
  struct Group {
    uint8_t scale[2];
    uint8_t bits[16];
  };

  static constexpr Type kType = Type::kQ1_0;
  static constexpr std::string_view kName = "Q1_0";
  static constexpr size_t kGroupLen = 128;
  static constexpr size_t kGroupBytes = 18;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 2};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      out[i] = (group.bits[i / 8] >> (i % 8) & 1) != 0 ? d : -d;
    }
  }

  // The scale is the mean magnitude.
  static void encode(const float* in, Group& group) noexcept {
    group = {};
    float sum = 0.0f;
    for (size_t i = 0; i < kGroupLen; ++i) {
      sum += std::fabs(in[i]);
      if (in[i] >= 0.0f) group.bits[i / 8] |= static_cast<uint8_t>(1 << (i % 8));
    }
    store_f16(sum / static_cast<float>(kGroupLen), group.scale);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    for (size_t i = 0; i < kGroupLen; i += 16) {
      uint8_t set[16];
      unpack_bits<Isa>(group.bits + i / 8, set);
#pragma GCC unroll 1
      for (size_t j = 0; j < 16; ++j) codes[i + j] = static_cast<int8_t>((set[j] & 2) - 1);
    }
    fill<Isa, 8>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 8>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
