// MXFP4: 32 elements in 17 bytes, 4-bit floats (1 sign, 2 exponent, 1 mantissa bit) with a power of
// two as their scale.
//   byte 0      exponent e
//   bytes 1-16  byte j holds element j in its low and element j + 16 in its high half
//   x = 2^(e - 128) * kFp4Values[code], where kFp4Values (packing.h) has twice the floats' values
// In the standard, e = 255 is a NaN. Here, it is an ordinary exponent: 2^(e - 128) is 2^127.
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

struct MXFP4 {
  struct Group {
    uint8_t exponent;
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kMXFP4;
  static constexpr std::string_view kName = "MXFP4";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 17;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4, .values = CodeValues::kFp4};

  static void decode(const Group& group, float* out) noexcept {
    const float d = std::ldexp(1.0f, group.exponent - 128);
    for (size_t j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>(kFp4Values.values[group.codes[j] & 15]);
      out[j + 16] = d * static_cast<float>(kFp4Values.values[group.codes[j] >> 4]);
    }
  }

  // The exponent brings the max magnitude between 4 and 8; the largest value is 6. Each element
  // gets the nearest value, or the first in the table if two are equally near.
  static void encode(const float* in, Group& group) noexcept {
    const float max_abs = std::fabs(extreme_of(in, kGroupLen));
    group = {};
    if (max_abs > 0.0f) {
      group.exponent = truncated_code(std::floor(std::log2(max_abs)) + 125.0f, 255);
    }
    const float d = std::ldexp(1.0f, group.exponent - 128);
    for (size_t i = 0; i < kGroupLen; ++i) {
      group.codes[i % 16] |= static_cast<uint8_t>(nearest_fp4_code(in[i], d) << (i < 16 ? 0 : 4));
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    static constexpr Codebook kTable = kFp4Values;
    uint8_t low[16];
    uint8_t high[16];
#pragma GCC unroll 1
    for (size_t j = 0; j < 16; ++j) {
      low[j] = static_cast<uint8_t>(group.codes[j] & 15);
      high[j] = static_cast<uint8_t>(group.codes[j] >> 4);
    }
    Isa::lookup16(kTable.values, low, codes, 16);
    Isa::lookup16(kTable.values, high, codes + 16, 16);
    fill<Isa, 2>(scales, power<Isa>(group.exponent));
    fill<Isa, 2>(offsets, 0.0f);
  }

 private:
  // Returns 2^(e - 128); the two smallest are subnormal.
  template <class Isa>
  static float power(uint32_t e) noexcept {
    const uint32_t bits = e < 2 ? 0x00200000u << e : (e - 1) << 23;
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
};

}  // namespace billow::quant
