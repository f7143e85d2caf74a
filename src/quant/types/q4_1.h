// Q4_1: 32 elements in 20 bytes.
//   bytes 0-1   f16 scale d
//   bytes 2-3   f16 minimum m
//   bytes 4-19  byte j holds element j in its low and element j + 16 in its high half
//   x = d * code + m, codes 0..15
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q4_1 {
  struct Group {
    uint8_t scale[2];
    uint8_t min[2];
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kQ4_1;
  static constexpr std::string_view kName = "Q4_1";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 20;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4, .offsets = true};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    const float m = load_f16(group.min);
    for (size_t j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(group.codes[j] & 15) + m;
      out[j + 16] = d * static_cast<float>(group.codes[j] >> 4) + m;
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    const float min = *std::min_element(in, in + kGroupLen);
    const float max = *std::max_element(in, in + kGroupLen);
    const float d = (max - min) / 15.0f;
    const float inverse = reciprocal_or_zero(d);
    uint8_t codes[kGroupLen];
    for (size_t i = 0; i < kGroupLen; ++i) {
      codes[i] = truncated_code((in[i] - min) * inverse + 0.5f, 15);
    }
    store(d, min, codes, group);
  }

  static void store(float d, float min, const uint8_t* codes, Group& group) noexcept {
    store_f16(d, group.scale);
    store_f16(min, group.min);
    for (size_t j = 0; j < 16; ++j) {
      group.codes[j] = static_cast<uint8_t>(codes[j] | (codes[j + 16] << 4));
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
#pragma GCC unroll 1
    for (size_t j = 0; j < 16; ++j) {
      codes[j] = static_cast<int8_t>(group.codes[j] & 15);
      codes[j + 16] = static_cast<int8_t>(group.codes[j] >> 4);
    }
    fill<Isa, 2>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 2>(offsets, unpack_f16<Isa>(group.min));
  }
};

}  // namespace billow::quant
