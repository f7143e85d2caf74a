// NVFP4: 64 elements in 36 bytes, 4 parts of 16: 4-bit floats (1 sign, 2 exponent, 1 mantissa bit)
// with an 8-bit float (4 exponent and 3 mantissa bits, no sign) as their scale.
//   bytes 0-3   scales: mantissa at bit 0, exponent at bit 3; bit 7 is ignored
//   bytes 4-35  codes of 4 bits, 8 bytes for each part: byte j holds element j of the part in its
//               low and element j + 8 in its high half
//   scale = 2^(exponent - 7) * (1 + mantissa / 8), or 2^-9 * mantissa if the exponent is 0;
//           the byte 0x7F, a NaN in the standard, is 0
//   x = scale / 2 * kFp4Values[code], where kFp4Values (packing.h) has twice the floats' values
// A matrix has one more scale, in a separate tensor. The code that uses the weights applies it.
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

struct NVFP4 {
  struct Group {
    uint8_t scales[4];
    uint8_t codes[32];
  };

  static constexpr Type kType = Type::kNVFP4;
  static constexpr std::string_view kName = "NVFP4";
  static constexpr size_t kGroupLen = 64;
  static constexpr size_t kGroupBytes = 36;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4, .scales_per_32 = 2, .values = CodeValues::kFp4};

  static void decode(const Group& group, float* out) noexcept {
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = (group.codes[i / 16 * 8 + i % 8] >> (i / 8 % 2 * 4)) & 15;
      out[i] = half_scale(group.scales[i / 16]) * static_cast<float>(kFp4Values.values[code]);
    }
  }

  // The scale of a part brings its max magnitude to 6, the largest value. Each element gets the
  // nearest value, or the first in the table if two are equally near.
  static void encode(const float* in, Group& group) noexcept {
    group = {};
    for (size_t part = 0; part < 4; ++part) {
      const float* x = in + 16 * part;
      group.scales[part] = nearest_scale(std::fabs(extreme_of(x, 16)) / 6.0f);
      const float d = half_scale(group.scales[part]);
      for (size_t i = 0; i < 16; ++i) {
        group.codes[8 * part + i % 8] |=
            static_cast<uint8_t>(nearest_fp4_code(x[i], d) << (i < 8 ? 0 : 4));
      }
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    static constexpr Codebook kTable = kFp4Values;
    uint8_t nibbles[64];
    for (size_t part = 0; part < 4; ++part) {
#pragma GCC unroll 1
      for (size_t j = 0; j < 8; ++j) {
        nibbles[16 * part + j] = static_cast<uint8_t>(group.codes[8 * part + j] & 15);
        nibbles[16 * part + j + 8] = static_cast<uint8_t>(group.codes[8 * part + j] >> 4);
      }
    }
    for (size_t i = 0; i < 64; i += 16) Isa::lookup16(kTable.values, nibbles + i, codes + i, 16);
#pragma GCC unroll 1
    for (size_t part = 0; part < 4; ++part) scales[part] = unpack_scale<Isa>(group.scales[part]);
    fill<Isa, 4>(offsets, 0.0f);
  }

 private:
  static float half_scale(uint8_t byte) noexcept {
    if (byte == 0x7F) return 0.0f;
    const int exponent = (byte >> 3) & 15;
    const auto mantissa = static_cast<float>(byte & 7);
    if (exponent == 0) return std::ldexp(mantissa, -10);
    return std::ldexp(1.0f + mantissa / 8.0f, exponent - 8);
  }

  // Returns the byte of the nearest scale, at most 448. Halves are rounded up. Scales below 2^-6
  // have the exponent 0 and a mantissa of at most 7.
  static uint8_t nearest_scale(float scale) noexcept {
    if (!(scale > 0.0f)) return 0;
    if (scale >= 448.0f) return 0x7E;
    if (scale < 0x1p-6f) return truncated_code(scale * 512.0f + 0.5f, 7);
    uint32_t bits;
    std::memcpy(&bits, &scale, sizeof bits);
    const uint32_t rounded = ((bits >> 19) + 1) >> 1;  // exponent and 3 bits of mantissa
    const uint32_t byte = rounded - ((127u - 7u) << 3);
    return static_cast<uint8_t>(byte < 0x7E ? byte : 0x7E);
  }

  // Like half_scale(), but makes the bits of a float. Its exponent is 8 less than that of the byte.
  template <class Isa>
  static float unpack_scale(uint32_t byte) noexcept {
    const uint32_t low = byte & 0x7Fu;
    const uint32_t bits = (low << 20) + ((127u - 8u) << 23);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    if (low < 8) value = static_cast<float>(low) * 0x1p-10f;
    return byte == 0x7F ? 0.0f : value;
  }
};

}  // namespace billow::quant
