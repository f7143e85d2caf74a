// IQ2_S: 256 elements in 82 bytes, 16 parts of 16, each with 2 stretches of 8.
//   bytes 0-1    f16 scale d
//   bytes 2-33   bits 0-7 of the stretches' entries
//   bytes 34-65  signs: the sign of element i is bit i % 8 of byte i / 8
//   bytes 66-73  bits 8-9 of the entries: stretch s is at bit 2 (s % 4) of byte s / 4
//   bytes 74-81  scales of the parts, 4 bits: part p is at bit 4 (p % 2) of byte p / 2
//   x = d / 8 * (2 * scale + 1) * value, negative if the element's sign is set. The values 8, 25
//   and 43 are the levels of the entry in Grids::kIq2S.
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

struct IQ2_S {
  struct Group {
    uint8_t scale[2];
    uint8_t entries[32];
    uint8_t signs[32];
    uint8_t high_bits[8];
    uint8_t part_scales[8];
  };

  static constexpr Type kType = Type::kIQ2_S;
  static constexpr std::string_view kName = "IQ2_S";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 82;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 3, .scales_per_32 = 2, .values = CodeValues::kIq2, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale) / 8.0f;
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t s = i / 8;
      const int high = (group.high_bits[s / 4] >> (s % 4 * 2)) & 3;
      const unsigned level = level_of(Grids<void>::kIq2S[group.entries[s] | (high << 8)], i % 8, 2);
      const unsigned sign = (group.signs[s] >> (i % 8)) & 1;
      const int part_scale = (group.part_scales[i / 32] >> (i / 16 % 2 * 4)) & 15;
      const float scale = d * static_cast<float>(2 * part_scale + 1);
      out[i] = scale * static_cast<float>(kIq2Values.values[level + 4 * sign]);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq2S,
                        .level_bits = 2,
                        .values = {kIq2Values.values, nullptr},
                        .choice_len = 8,
                        .signs = GridSigns::kFree,
                        .part_len = 16,
                        .max_scale = 15,
                        .unit = 0.125f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    for (size_t s = 0; s < 32; ++s) {
      group.entries[s] = static_cast<uint8_t>(fit.indices[s]);
      group.signs[s] = fit.signs[s];
      group.high_bits[s / 4] |= static_cast<uint8_t>((fit.indices[s] >> 8) << (s % 4 * 2));
    }
    for (size_t p = 0; p < 16; ++p) {
      group.part_scales[p / 2] |= static_cast<uint8_t>(fit.part_scales[p] << (p % 2 * 4));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kIq2Values;
    uint64_t bytes[32];
    for (size_t s = 0; s < 32; ++s) {
      const int high = (group.high_bits[s / 4] >> (s % 4 * 2)) & 3;
      bytes[s] = spread_levels8<Isa>(Grids<Isa>::kIq2S[group.entries[s] | (high << 8)]) |
                 spread_bits<Isa>(group.signs[s]) << 2;
    }
    Isa::lookup16(kTable.values, reinterpret_cast<const uint8_t*>(bytes), codes, 256);
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale) * 0.125f;
    parts.min_unit = 0.0f;
#pragma GCC unroll 1
    for (size_t j = 0; j < 8; ++j) {
      parts.scales[2 * j] = static_cast<uint8_t>(2 * (group.part_scales[j] & 15) + 1);
      parts.scales[2 * j + 1] = static_cast<uint8_t>(2 * (group.part_scales[j] >> 4) + 1);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ2_S>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
