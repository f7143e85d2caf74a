// Q2_K: 256 elements in 84 bytes, 16 parts of 16.
//   bytes 0-15   part p: scale in the low, minimum in the high half of byte p
//   bytes 16-79  codes of 2 bits, 32 bytes for each half h of 128 elements: element
//                128 h + 32 g + l is at bit 2 g of byte 32 h + l
//   bytes 80-81  f16 scale d
//   bytes 82-83  f16 scale of the minima d_min
//   x = d * scale * code - d_min * min
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/type.h"

namespace billow::quant {

struct Q2_K {
  struct Group {
    uint8_t parts[16];
    uint8_t codes[64];
    uint8_t scale[2];
    uint8_t min_scale[2];
  };

  static constexpr Type kType = Type::kQ2_K;
  static constexpr std::string_view kName = "Q2_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 84;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 2, .scales_per_32 = 2, .offsets = true, .scale_form = ScaleForm::kNibbles};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    const float d_min = load_f16(group.min_scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const float scale = d * static_cast<float>(group.parts[i / 16] & 15);
      const float min = d_min * static_cast<float>(group.parts[i / 16] >> 4);
      const int code = (group.codes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
      out[i] = scale * static_cast<float>(code) - min;
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_affine(in, {.part_len = 16, .max_code = 3, .max_part_scale = 15}), group);
  }

  static void store(const AffineGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    store_f16(fit.d_min, group.min_scale);
    for (size_t p = 0; p < 16; ++p) {
      group.parts[p] = static_cast<uint8_t>(fit.part_scales[p] | (fit.part_mins[p] << 4));
    }
    for (size_t i = 0; i < kGroupLen; ++i) {
      group.codes[i / 128 * 32 + i % 32] |= static_cast<uint8_t>(fit.codes[i] << (i / 32 % 4 * 2));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    for (size_t h = 0; h < 2; ++h) {
      const uint8_t* packed = group.codes + 32 * h;
      int8_t* __restrict out = codes + 128 * h;
      for (size_t l = 0; l < 32; ++l) {
        out[l] = static_cast<int8_t>(packed[l] & 3);
        out[l + 32] = static_cast<int8_t>((packed[l] >> 2) & 3);
        out[l + 64] = static_cast<int8_t>((packed[l] >> 4) & 3);
        out[l + 96] = static_cast<int8_t>(packed[l] >> 6);
      }
    }
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = unpack_f16<Isa>(group.min_scale);
#pragma GCC unroll 1
    for (size_t p = 0; p < 16; ++p) {
      parts.scales[p] = static_cast<uint8_t>(group.parts[p] & 15);
      parts.mins[p] = static_cast<uint8_t>(group.parts[p] >> 4);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, Q2_K>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
