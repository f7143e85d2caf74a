// IQ4_XS: 256 elements in 136 bytes, 8 parts of 32, with unevenly spaced values.
//   bytes 0-1    f16 scale d
//   bytes 2-3    bits 4-5 of the scale of part p at bit 2 p (little-endian)
//   bytes 4-7    bits 0-3 of the scale of part p at bit 4 p (little-endian)
//   bytes 8-135  codes of 4 bits, 16 bytes for each part: byte j holds element j of the part in its
//                low and element j + 16 in its high half
//   x = d * (scale - 32) * kIq4Values[code]
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/type.h"
#include "quant/types/iq4_nl.h"

namespace billow::quant {

struct IQ4_XS {
  struct Group {
    uint8_t scale[2];
    uint8_t parts_high[2];
    uint8_t parts_low[4];
    uint8_t codes[128];
  };

  static constexpr Type kType = Type::kIQ4_XS;
  static constexpr std::string_view kName = "IQ4_XS";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 136;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 4, .values = CodeValues::kIq4, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t part = i / 32;
      const int low = (group.parts_low[part / 2] >> (part % 2 * 4)) & 15;
      const int high = (group.parts_high[part / 4] >> (part % 4 * 2)) & 3;
      const int code = (group.codes[part * 16 + i % 16] >> (i / 16 % 2 * 4)) & 15;
      out[i] = d * static_cast<float>((low | (high << 4)) - 32) *
               static_cast<float>(kIq4Values.values[code]);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_codebook(in, kIq4Values.values), group);
  }

  static void store(const SymmetricGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    for (size_t p = 0; p < 8; ++p) {
      const int scale = fit.part_scales[p] + 32;
      group.parts_low[p / 2] |= static_cast<uint8_t>((scale & 15) << (p % 2 * 4));
      group.parts_high[p / 4] |= static_cast<uint8_t>((scale >> 4) << (p % 4 * 2));
    }
    for (size_t i = 0; i < kGroupLen; ++i) {
      group.codes[i / 32 * 16 + i % 16] |= static_cast<uint8_t>(fit.codes[i] << (i / 16 % 2 * 4));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kIq4Values;
    for (size_t p = 0; p < 8; ++p) {
      uint8_t low[16];
      uint8_t high[16];
#pragma GCC unroll 1
      for (size_t j = 0; j < 16; ++j) {
        low[j] = static_cast<uint8_t>(group.codes[16 * p + j] & 15);
        high[j] = static_cast<uint8_t>(group.codes[16 * p + j] >> 4);
      }
      Isa::lookup16(kTable.values, low, codes + 32 * p, 16);
      Isa::lookup16(kTable.values, high, codes + 32 * p + 16, 16);
    }
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = 0.0f;
    const uint32_t low = unpack_u32<Isa>(group.parts_low);
    const auto high = static_cast<uint32_t>(group.parts_high[0] | (group.parts_high[1] << 8));
#pragma GCC unroll 1
    for (size_t p = 0; p < 8; ++p) {
      const uint32_t part = ((low >> (4 * p)) & 15u) | (((high >> (2 * p)) & 3u) << 4);
      parts.scales[p] = static_cast<uint8_t>(part - 32);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ4_XS>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
