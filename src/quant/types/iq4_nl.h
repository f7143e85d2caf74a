// IQ4_NL: 32 elements in 18 bytes, with unevenly spaced values.
//   bytes 0-1   f16 scale d
//   bytes 2-17  byte j holds element j in its low and element j + 16 in its high half
//   x = d * kIq4Values[code], codes 0..15
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct IQ4_NL {
  struct Group {
    uint8_t scale[2];
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kIQ4_NL;
  static constexpr std::string_view kName = "IQ4_NL";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 18;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4, .values = CodeValues::kIq4};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(kIq4Values.values[group.codes[j] & 15]);
      out[j + 16] = d * static_cast<float>(kIq4Values.values[group.codes[j] >> 4]);
    }
  }

  // The first scale maps the element of max magnitude to the first value. It determines the codes.
  // Then the scale is fitted to these codes, with elements weighted by their squares.
  static void encode(const float* in, Group& group) noexcept {
    const float extreme = extreme_of(in, kGroupLen);
    group = {};
    if (std::fabs(extreme) < 1e-15f) return;
    const float inverse = 1.0f / (extreme / static_cast<float>(kIq4Values.values[0]));
    float sum_qx = 0.0f;
    float sum_qq = 0.0f;
    for (size_t i = 0; i < kGroupLen; ++i) {
      const uint8_t code = nearest_entry(kIq4Values.values, inverse * in[i]);
      const float value = static_cast<float>(kIq4Values.values[code]);
      const float weight = in[i] * in[i];
      sum_qx += weight * value * in[i];
      sum_qq += weight * value * value;
      group.codes[i % 16] |= static_cast<uint8_t>(code << (i < 16 ? 0 : 4));
    }
    store_f16(sum_qx / sum_qq, group.scale);
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
    static constexpr Codebook kTable = kIq4Values;
    uint8_t low[16];
    uint8_t high[16];
#pragma GCC unroll 1
    for (size_t j = 0; j < 16; ++j) {
      low[j] = static_cast<uint8_t>(group.codes[j] & 15);
      high[j] = static_cast<uint8_t>(group.codes[j] >> 4);
    }
    Isa::lookup16(kTable.values, low, codes, 16);
    Isa::lookup16(kTable.values, high, codes + 16, 16);
    fill<Isa, 2>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 2>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
