// Q6_K: 256 elements in 210 bytes, 16 parts of 16.
//   bytes 0-127    bits 0-3 of the codes, 64 bytes for each half h of 128 elements: byte 64 h + l
//                  holds element 128 h + l in its low and element 128 h + l + 64 in its high half
//   bytes 128-191  bits 4-5 of the codes, 32 bytes for each half h: element 128 h + 32 g + l is at
//                  bit 2 g of byte 32 h + l
//   bytes 192-207  scales of the parts, signed
//   bytes 208-209  f16 scale d
//   x = d * scale * (code - 32), codes 0..63
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "quant/group_fit.h"
#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/parts.h"
#include "quant/type.h"

namespace billow::quant {

struct Q6_K {
  struct Group {
    uint8_t codes[128];
    uint8_t high_bits[64];
    int8_t parts[16];
    uint8_t scale[2];
  };

  static constexpr Type kType = Type::kQ6_K;
  static constexpr std::string_view kName = "Q6_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 210;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 6, .scales_per_32 = 2, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t part = i / 16;
      const int low = (group.codes[i / 128 * 64 + i % 64] >> (i / 64 % 2 * 4)) & 15;
      const int high = (group.high_bits[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
      const float scale = d * static_cast<float>(group.parts[part]);
      out[i] = scale * static_cast<float>((low | (high << 4)) - 32);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_symmetric(in, {.part_len = 16, .n_steps = 32, .n_part_steps = 128}), group);
  }

  static void store(const SymmetricGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    std::memcpy(group.parts, fit.part_scales, sizeof group.parts);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = fit.codes[i] + 32;
      group.codes[i / 128 * 64 + i % 64] |= static_cast<uint8_t>((code & 15) << (i / 64 % 2 * 4));
      group.high_bits[i / 128 * 32 + i % 32] |=
          static_cast<uint8_t>((code >> 4) << (i / 32 % 4 * 2));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    for (size_t h = 0; h < 2; ++h) {
      const uint8_t* low = group.codes + 64 * h;
      const uint8_t* high = group.high_bits + 32 * h;
      int8_t* __restrict out = codes + 128 * h;
      for (size_t l = 0; l < 32; ++l) {
        out[l] = code<Isa>(low[l] & 15, high[l] << 4);
        out[l + 32] = code<Isa>(low[l + 32] & 15, high[l] << 2);
        out[l + 64] = code<Isa>(low[l] >> 4, high[l]);
        out[l + 96] = code<Isa>(low[l + 32] >> 4, high[l] >> 2);
      }
    }
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = 0.0f;
    __builtin_memcpy(parts.scales, group.parts, sizeof group.parts);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, Q6_K>(group, codes, scales, offsets);
  }

 private:
  // Combines bits 0-3 of `low` and bits 4-5 of `high`.
  template <class Isa>
  static int8_t code(int low, int high) noexcept {
    return static_cast<int8_t>((low | (high & 48)) - 32);
  }
};

}  // namespace billow::quant
