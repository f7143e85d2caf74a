// IQ2_XXS: 256 elements in 66 bytes, 8 parts of 32, each with 4 stretches of 8.
//   bytes 0-1   f16 scale d
//   bytes 2-65  8 bytes for each part: the entry of stretch s in byte s, then a little-endian word.
//               In the word, the 7 signs of stretch s are at bit 7 s, and the scale of 4 bits is at
//               bit 28
//   x = d / 8 * (2 * scale + 1) * value, negative if the element's sign is set. The values 8, 25
//   and 43 are the levels of the entry in Grids::kIq2Xxs. The eighth sign of a stretch makes the
//   number of set signs even.
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

struct IQ2_XXS {
  struct Part {
    uint8_t entries[4];
    uint8_t signs_and_scale[4];
  };
  struct Group {
    uint8_t scale[2];
    Part parts[8];
  };

  static constexpr Type kType = Type::kIQ2_XXS;
  static constexpr std::string_view kName = "IQ2_XXS";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 66;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 3, .values = CodeValues::kIq2, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale) / 8.0f;
    for (size_t i = 0; i < kGroupLen; ++i) {
      const Part& part = group.parts[i / 32];
      const size_t stretch = i / 8 % 4;
      const uint32_t word = load_u32(part.signs_and_scale);
      const unsigned signs = even_signs(word >> (7 * stretch));
      const unsigned level = level_of(Grids<void>::kIq2Xxs[part.entries[stretch]], i % 8, 2);
      const float scale = d * static_cast<float>(2 * (word >> 28) + 1);
      out[i] = scale * static_cast<float>(kIq2Values.values[level + ((signs >> (i % 8)) & 1) * 4]);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq2Xxs,
                        .level_bits = 2,
                        .values = {kIq2Values.values, nullptr},
                        .choice_len = 8,
                        .signs = GridSigns::kEven,
                        .part_len = 32,
                        .max_scale = 15,
                        .unit = 0.125f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    store_f16(fit.d, group.scale);
    for (size_t p = 0; p < 8; ++p) {
      uint32_t word = static_cast<uint32_t>(fit.part_scales[p]) << 28;
      for (size_t s = 0; s < 4; ++s) {
        group.parts[p].entries[s] = static_cast<uint8_t>(fit.indices[4 * p + s]);
        word |= (fit.signs[4 * p + s] & 127u) << (7 * s);
      }
      std::memcpy(group.parts[p].signs_and_scale, &word, sizeof word);
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kIq2Values;
    uint64_t bytes[32];
    for (size_t p = 0; p < 8; ++p) {
      const Part& part = group.parts[p];
      const uint32_t word = unpack_u32<Isa>(part.signs_and_scale);
      for (size_t s = 0; s < 4; ++s) {
        bytes[4 * p + s] = spread_levels8<Isa>(Grids<Isa>::kIq2Xxs[part.entries[s]]) |
                           spread_bits<Isa>(unpack_even_signs<Isa>(word >> (7 * s))) << 2;
      }
    }
    Isa::lookup16(kTable.values, reinterpret_cast<const uint8_t*>(bytes), codes, 256);
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale) * 0.125f;
    parts.min_unit = 0.0f;
#pragma GCC unroll 1
    for (size_t p = 0; p < 8; ++p) {
      const uint32_t part_scale = unpack_u32<Isa>(group.parts[p].signs_and_scale) >> 28;
      parts.scales[p] = static_cast<uint8_t>(2 * part_scale + 1);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ2_XXS>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
