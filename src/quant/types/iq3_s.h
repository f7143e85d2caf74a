// IQ3_S: 256 elements in 110 bytes, 8 parts of 32.
//   bytes 0-1      f16 scale d
//   bytes 2-65     bits 0-7 of the entries, of 4 elements each
//   bytes 66-73    bit 8 of the entries: that of entry j is bit j % 8 of byte j / 8
//   bytes 74-105   signs: the sign of element i is bit i % 8 of byte i / 8
//   bytes 106-109  scales of the parts, 4 bits: part p is at bit 4 (p % 2) of byte p / 2
//   x = d * (2 * scale + 1) * (2 * level + 1), negative if the element's sign is set. The levels
//   are those of the entry in Grids::kIq3S
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

struct IQ3_S {
  struct Group {
    uint8_t scale[2];
    uint8_t entries[64];
    uint8_t high_bits[8];
    uint8_t signs[32];
    uint8_t part_scales[4];
  };

  static constexpr Type kType = Type::kIQ3_S;
  static constexpr std::string_view kName = "IQ3_S";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 110;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 4, .values = CodeValues::kOdd, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t j = i / 4;
      const int high = (group.high_bits[j / 8] >> (j % 8)) & 1;
      const unsigned level = level_of(Grids<void>::kIq3S[group.entries[j] | (high << 8)], i % 4, 3);
      const unsigned sign = (group.signs[i / 8] >> (i % 8)) & 1;
      const int part_scale = (group.part_scales[i / 64] >> (i / 32 % 2 * 4)) & 15;
      const float scale = d * static_cast<float>(2 * part_scale + 1);
      out[i] = scale * static_cast<float>(kOddValues.values[level + 8 * sign]);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq3S,
                        .level_bits = 3,
                        .values = {kOddValues.values, nullptr},
                        .choice_len = 4,
                        .signs = GridSigns::kFree,
                        .part_len = 32,
                        .max_scale = 15,
                        .unit = 1.0f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    for (size_t j = 0; j < 64; ++j) {
      group.entries[j] = static_cast<uint8_t>(fit.indices[j]);
      group.high_bits[j / 8] |= static_cast<uint8_t>((fit.indices[j] >> 8) << (j % 8));
    }
    std::memcpy(group.signs, fit.signs, sizeof group.signs);
    for (size_t p = 0; p < 8; ++p) {
      group.part_scales[p / 2] |= static_cast<uint8_t>(fit.part_scales[p] << (p % 2 * 4));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kOddValues;
    uint64_t bytes[32];
    for (size_t s = 0; s < 32; ++s) {
      const unsigned high = static_cast<unsigned>(group.high_bits[s / 4]) >> (s % 4 * 2);
      const uint8_t* two = group.entries + 2 * s;
      const uint64_t first = spread_levels4<Isa>(Grids<Isa>::kIq3S[two[0] | ((high & 1) << 8)]);
      const uint64_t second = spread_levels4<Isa>(Grids<Isa>::kIq3S[two[1] | ((high & 2) << 7)]);
      bytes[s] = first | (second << 32) | spread_bits<Isa>(group.signs[s]) << 3;
    }
    Isa::lookup16(kTable.values, reinterpret_cast<const uint8_t*>(bytes), codes, 256);
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = 0.0f;
#pragma GCC unroll 1
    for (size_t p = 0; p < 8; ++p) {
      const int part_scale = (group.part_scales[p / 2] >> (p % 2 * 4)) & 15;
      parts.scales[p] = static_cast<uint8_t>(2 * part_scale + 1);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ3_S>(group, codes, scales, offsets);
  }
};

}  // namespace billow::quant
