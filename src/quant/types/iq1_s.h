// IQ1_S: 256 elements in 50 bytes, 8 parts of 32, each with 4 stretches of 8.
//   bytes 0-1    f16 scale d
//   bytes 2-33   bits 0-7 of the stretches' entries
//   bytes 34-49  a little-endian word of 16 bits for each part: bits 8-10 of the entry of stretch s
//                are at bit 3 s, the scale of 3 bits is at bit 12, and the shift at bit 15
//   x = d * (2 * scale + 1) * (level - 1 + 1/8), or - 1/8 if the shift is set. The levels are those
//   of the entry in Grids::kIq1
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/grid.h"
#include "quant/grids.h"
#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct IQ1_S {
  struct Group {
    uint8_t scale[2];
    uint8_t entries[32];
    uint8_t parts[8][2];
  };

  static constexpr Type kType = Type::kIQ1_S;
  static constexpr std::string_view kName = "IQ1_S";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 50;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 2, .offsets = true};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const unsigned word = group.parts[i / 32][0] | (unsigned{group.parts[i / 32][1]} << 8);
      const unsigned high = (word >> (i / 8 % 4 * 3)) & 7;
      const unsigned level =
          level_of(Grids<void>::kIq1[group.entries[i / 8] | (high << 8)], i % 8, 2);
      const float scale = d * static_cast<float>(2 * ((word >> 12) & 7) + 1);
      const float shift = (word >> 15) != 0 ? -0.125f : 0.125f;
      out[i] = scale * (static_cast<float>(level) - 1.0f + shift);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_grid(in, {.entries = Grids<void>::kIq1,
                        .level_bits = 2,
                        .values = {kIq1Values.values, kIq1Values.values + 4},
                        .choice_len = 32,
                        .signs = GridSigns::kNone,
                        .part_len = 32,
                        .max_scale = 7,
                        .unit = 0.125f}),
          group);
  }

  static void store(const GridGroup& fit, Group& group) noexcept {
    store_f16(fit.d, group.scale);
    for (size_t p = 0; p < 8; ++p) {
      unsigned word = (unsigned{fit.part_scales[p]} << 12) | (fit.second[4 * p] ? 0x8000u : 0u);
      for (size_t s = 0; s < 4; ++s) {
        group.entries[4 * p + s] = static_cast<uint8_t>(fit.indices[4 * p + s]);
        word |= (unsigned{fit.indices[4 * p + s]} >> 8) << (3 * s);
      }
      group.parts[p][0] = static_cast<uint8_t>(word);
      group.parts[p][1] = static_cast<uint8_t>(word >> 8);
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    uint64_t bytes[32];
    const float d = unpack_f16<Isa>(group.scale);
    for (size_t p = 0; p < 8; ++p) {
      const auto word = static_cast<uint32_t>(group.parts[p][0] | (group.parts[p][1] << 8));
      for (size_t s = 0; s < 4; ++s) {
        const uint32_t high = (word >> (3 * s)) & 7;
        bytes[4 * p + s] =
            spread_levels8<Isa>(Grids<Isa>::kIq1[group.entries[4 * p + s] | (high << 8)]);
      }
      const float scale = d * static_cast<float>(static_cast<int32_t>(2 * ((word >> 12) & 7) + 1));
      fill<Isa, 2>(scales + 2 * p, scale);
      fill<Isa, 2>(offsets + 2 * p, scale * ((word >> 15) != 0 ? -1.125f : -0.875f));
    }
    __builtin_memcpy(codes, bytes, sizeof bytes);
  }
};

}  // namespace billow::quant
