// IQ1_M: 256 elements in 56 bytes, 16 parts of 16, each with 2 stretches of 8.
//   bytes 0-31   bits 0-7 of the stretches' entries
//   bytes 32-47  4 bits for each stretch: stretch s is at bit 4 (s % 2) of byte 32 + s / 2. The low
//                3 bits are bits 8-10 of the entry, and the high bit is the shift
//   bytes 48-55  four little-endian words of 16 bits. Bits 12-15 of word w are the bits of the f16
//                scale d from bit 4 w on. The scale of part p, 3 bits, is at bit 3 (p % 4) of
//                word p / 4
//   x = d * (2 * scale + 1) * (level - 1 + 1/8), or - 1/8 if the shift is set. The entry of
//   Grids::kIq1 has the levels
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

struct IQ1_M {
  struct Group {
    uint8_t entries[32];
    uint8_t high_bits[16];
    uint8_t scales[4][2];
  };

  static constexpr Type kType = Type::kIQ1_M;
  static constexpr std::string_view kName = "IQ1_M";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 56;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 3, .scales_per_32 = 2, .values = CodeValues::kIq1, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = f16_to_f32(scale_bits(group));
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t s = i / 8;
      const unsigned high = (group.high_bits[s / 2] >> (s % 2 * 4)) & 15;
      const unsigned entry = group.entries[s] | ((high & 7) << 8);
      const unsigned level = level_of(Grids<void>::kIq1[entry], i % 8, 2);
      const float scale = d * static_cast<float>(2 * part_scale(group, i / 16) + 1);
      const float shift = (high & 8) != 0 ? -0.125f : 0.125f;
      out[i] = scale * (static_cast<float>(level) - 1.0f + shift);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq1,
                        .level_bits = 2,
                        .values = {kIq1Values.values, kIq1Values.values + 4},
                        .choice_len = 8,
                        .signs = GridSigns::kNone,
                        .part_len = 16,
                        .max_scale = 7,
                        .unit = 0.125f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    group = {};
    for (size_t s = 0; s < 32; ++s) {
      group.entries[s] = static_cast<uint8_t>(fit.indices[s]);
      const unsigned high = (fit.indices[s] >> 8) | (fit.second[s] ? 8u : 0u);
      group.high_bits[s / 2] |= static_cast<uint8_t>(high << (s % 2 * 4));
    }
    const uint16_t d = f32_to_f16(fit.d);
    for (size_t w = 0; w < 4; ++w) {
      unsigned word = static_cast<unsigned>((d >> (4 * w)) & 15) << 12;
      for (size_t i = 0; i < 4; ++i) word |= unsigned{fit.part_scales[4 * w + i]} << (3 * i);
      group.scales[w][0] = static_cast<uint8_t>(word);
      group.scales[w][1] = static_cast<uint8_t>(word >> 8);
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    static constexpr Codebook kTable = kIq1Values;
    uint64_t bytes[32];
    for (size_t s = 0; s < 32; ++s) {
      const uint64_t high = (static_cast<unsigned>(group.high_bits[s / 2]) >> (s % 2 * 4)) & 15;
      bytes[s] = spread_levels8<Isa>(Grids<Isa>::kIq1[group.entries[s] | ((high & 7) << 8)]) |
                 (high >> 3) * 0x0404040404040404u;
    }
    Isa::lookup16(kTable.values, reinterpret_cast<const uint8_t*>(bytes), codes, 256);
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    uint64_t words;
    __builtin_memcpy(&words, group.scales, sizeof words);
    const uint64_t bits = ((words >> 12) & 0xF) | ((words >> 24) & 0xF0) | ((words >> 36) & 0xF00) |
                          ((words >> 48) & 0xF000);
    parts.unit = Isa::f16_to_f32(static_cast<uint16_t>(bits)) * 0.125f;
    parts.min_unit = 0.0f;
#pragma GCC unroll 1
    for (size_t p = 0; p < 16; ++p) {
      parts.scales[p] = static_cast<uint8_t>(2 * ((words >> (p / 4 * 16 + p % 4 * 3)) & 7) + 1);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, IQ1_M>(group, codes, scales, offsets);
  }

 private:
  static unsigned word(const Group& group, size_t w) noexcept {
    return group.scales[w][0] | (static_cast<unsigned>(group.scales[w][1]) << 8);
  }
  static uint16_t scale_bits(const Group& group) noexcept {
    unsigned bits = 0;
    for (size_t w = 0; w < 4; ++w) bits |= (word(group, w) >> 12) << (4 * w);
    return static_cast<uint16_t>(bits);
  }
  static unsigned part_scale(const Group& group, size_t p) noexcept {
    return (word(group, p / 4) >> (p % 4 * 3)) & 7;
  }
};

}  // namespace billow::quant
