// Q5_K: 256 elements in 176 bytes, 8 parts of 32.
//   bytes 0-1     f16 scale d
//   bytes 2-3     f16 scale of the minima d_min
//   bytes 4-15    scales and minima of the parts, 6 bits each (six_bit.h)
//   bytes 16-47   bit 4 of the codes: that of element l of part p is bit p of byte l
//   bytes 48-175  bits 0-3 of the codes, 32 bytes for each two parts: the first in the low halves,
//                 the second in the high halves
//   x = d * scale * code - d_min * min
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/six_bit.h"
#include "quant/type.h"

namespace billow::quant {

struct Q5_K {
  struct Group {
    uint8_t scale[2];
    uint8_t min_scale[2];
    uint8_t parts[12];
    uint8_t high_bits[32];
    uint8_t codes[128];
  };

  static constexpr Type kType = Type::kQ5_K;
  static constexpr std::string_view kName = "Q5_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 176;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 5, .offsets = true, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    const float d_min = load_f16(group.min_scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t part = i / 32;
      const SixBitPair pair = load_six_bit(group.parts, part);
      const int low = (group.codes[part / 2 * 32 + i % 32] >> (part % 2 * 4)) & 15;
      const int high = (group.high_bits[i % 32] >> part) & 1;
      out[i] = d * static_cast<float>(pair.scale) * static_cast<float>(low | (high << 4)) -
               d_min * static_cast<float>(pair.min);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_affine(in, {.part_len = 32, .max_code = 31, .max_part_scale = 63}), group);
  }

  static void store(const AffineGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    store_f16(fit.d_min, group.min_scale);
    store_six_bit(fit.part_scales, fit.part_mins, group.parts);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = fit.codes[i];
      group.codes[i / 64 * 32 + i % 32] |= static_cast<uint8_t>((code & 15) << (i / 32 % 2 * 4));
      group.high_bits[i % 32] |= static_cast<uint8_t>((code >> 4) << (i / 32));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    const uint8_t* packed = group.codes;
    const uint8_t* high = group.high_bits;
    for (size_t l = 0; l < 32; ++l) {
      codes[l] = code<Isa>(packed[l] & 15, high[l] << 4);
      codes[l + 32] = code<Isa>(packed[l] >> 4, high[l] << 3);
      codes[l + 64] = code<Isa>(packed[l + 32] & 15, high[l] << 2);
      codes[l + 96] = code<Isa>(packed[l + 32] >> 4, high[l] << 1);
    }
    for (size_t l = 0; l < 32; ++l) {
      codes[l + 128] = code<Isa>(packed[l + 64] & 15, high[l]);
      codes[l + 160] = code<Isa>(packed[l + 64] >> 4, high[l] >> 1);
      codes[l + 192] = code<Isa>(packed[l + 96] & 15, high[l] >> 2);
      codes[l + 224] = code<Isa>(packed[l + 96] >> 4, high[l] >> 3);
    }
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = unpack_f16<Isa>(group.min_scale);
    unpack_six_bit<Isa>(group.parts, parts.scales, parts.mins);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, Q5_K>(group, codes, scales, offsets);
  }

 private:
  // Combines bits 0-3 of `low` and bit 4 of `high`.
  template <class Isa>
  static int8_t code(int low, int high) noexcept {
    return static_cast<int8_t>(low | (high & 16));
  }
};

}  // namespace billow::quant
