// IQ3_XXS: 256 elements in 98 bytes, 8 parts of 32, each with 4 stretches of 8.
//   bytes 0-1    f16 scale d
//   bytes 2-65   entries, of 4 elements each
//   bytes 66-97  a little-endian word for each part: the 7 signs of stretch s are at bit 7 s, and
//                the scale of 4 bits is at bit 28
//   x = d / 4 * (2 * scale + 1) * value, negative if the element's sign is set. The values 4, 12,
//   20, 28, 36, 44, 52 and 62 are the levels of the entry in Grids::kIq3Xxs. The eighth sign of a
//   stretch makes the number of set signs even.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/grid.h"
#include "quant/grids.h"
#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/type.h"

namespace billow::quant {

struct IQ3_XXS {
  struct Group {
    uint8_t scale[2];
    uint8_t entries[64];
    uint8_t signs_and_scales[8][4];
  };

  static constexpr Type kType = Type::kIQ3_XXS;
  static constexpr std::string_view kName = "IQ3_XXS";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 98;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 4, .values = CodeValues::kIq3, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale) / 4.0f;
    for (size_t i = 0; i < kGroupLen; ++i) {
      const uint32_t word = load_u32(group.signs_and_scales[i / 32]);
      const unsigned signs = even_signs(word >> (i / 8 % 4 * 7));
      const unsigned level = level_of(Grids<void>::kIq3Xxs[group.entries[i / 4]], i % 4, 3);
      const float scale = d * static_cast<float>(2 * (word >> 28) + 1);
      out[i] = scale * static_cast<float>(kIq3Values.values[level + ((signs >> (i % 8)) & 1) * 8]);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq3Xxs,
                        .level_bits = 3,
                        .values = {kIq3Values.values, nullptr},
                        .choice_len = 4,
                        .signs = GridSigns::kEven,
                        .part_len = 32,
                        .max_scale = 15,
                        .unit = 0.25f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    store_f16(fit.d, group.scale);
    for (size_t j = 0; j < 64; ++j) group.entries[j] = static_cast<uint8_t>(fit.indices[j]);
    for (size_t p = 0; p < 8; ++p) {
      uint32_t word = static_cast<uint32_t>(fit.part_scales[p]) << 28;
      for (size_t s = 0; s < 4; ++s) word |= (fit.signs[4 * p + s] & 127u) << (7 * s);
      std::memcpy(group.signs_and_scales[p], &word, sizeof word);
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kIq3Values;
    uint64_t bytes[32];
    for (size_t p = 0; p < 8; ++p) {
      const uint32_t word = unpack_u32<Isa>(group.signs_and_scales[p]);
      for (size_t s = 0; s < 4; ++s) {
        const uint8_t* two = group.entries + 8 * p + 2 * s;
        const uint64_t low = spread_levels4<Isa>(Grids<Isa>::kIq3Xxs[two[0]]);
        const uint64_t high = spread_levels4<Isa>(Grids<Isa>::kIq3Xxs[two[1]]);
        bytes[4 * p + s] =
            low | (high << 32) | spread_bits<Isa>(unpack_even_signs<Isa>(word >> (7 * s))) << 3;
      }
    }
    Isa::lookup16(kTable.values, reinterpret_cast<const uint8_t*>(bytes), codes, 256);
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale) * 0.25f;
    parts.min_unit = 0.0f;
#pragma GCC unroll 1
    for (size_t p = 0; p < 8; ++p) {
      const uint32_t part_scale = unpack_u32<Isa>(group.signs_and_scales[p]) >> 28;
      parts.scales[p] = static_cast<uint8_t>(2 * part_scale + 1);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ3_XXS>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
