// Q4_K: 256 elements in 144 bytes, 8 parts of 32.
//   bytes 0-1     f16 scale d
//   bytes 2-3     f16 scale of the minima d_min
//   bytes 4-15    scales and minima of the parts, 6 bits each (six_bit.h)
//   bytes 16-143  codes of 4 bits, 32 bytes for each two parts: the first in the low halves, the
//                 second in the high halves
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

struct Q4_K {
  struct Group {
    uint8_t scale[2];
    uint8_t min_scale[2];
    uint8_t parts[12];
    uint8_t codes[128];
  };

  static constexpr Type kType = Type::kQ4_K;
  static constexpr std::string_view kName = "Q4_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 144;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 4, .offsets = true, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    const float d_min = load_f16(group.min_scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t part = i / 32;
      const SixBitPair pair = load_six_bit(group.parts, part);
      const int code = (group.codes[part / 2 * 32 + i % 32] >> (part % 2 * 4)) & 15;
      out[i] = d * static_cast<float>(pair.scale) * static_cast<float>(code) -
               d_min * static_cast<float>(pair.min);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_affine(in, {.part_len = 32, .max_code = 15, .max_part_scale = 63}), group);
  }

  static void store(const AffineGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    store_f16(fit.d_min, group.min_scale);
    store_six_bit(fit.part_scales, fit.part_mins, group.parts);
    for (size_t i = 0; i < kGroupLen; ++i) {
      group.codes[i / 64 * 32 + i % 32] |= static_cast<uint8_t>(fit.codes[i] << (i / 32 % 2 * 4));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    for (size_t k = 0; k < 4; ++k) {
      const uint8_t* packed = group.codes + 32 * k;
      int8_t* __restrict out = codes + 64 * k;
      for (size_t l = 0; l < 32; ++l) {
        out[l] = static_cast<int8_t>(packed[l] & 15);
        out[l + 32] = static_cast<int8_t>(packed[l] >> 4);
      }
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
    unpack_by_parts<Isa, Q4_K>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
