// Q3_K: 256 elements in 110 bytes, 16 parts of 16.
//   bytes 0-31     bit 2 of the codes: that of element 32 k + l is bit k of byte l
//   bytes 32-95    bits 0-1 of the codes, 32 bytes for each half h of 128 elements: element
//                  128 h + 32 g + l is at bit 2 g of byte 32 h + l
//   bytes 96-107   scales of 6 bits. Bits 0-3 of part p < 8 are the low half of byte p. Bits 0-3 of
//                  part p >= 8 are the high half of byte p - 8. Bits 4-5 of any part p are at bit
//                  2 (p / 4) of byte 8 + p % 4
//   bytes 108-109  f16 scale d
//   x = d * (scale - 32) * (code - 4), codes 0..7
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

struct Q3_K {
  struct Group {
    uint8_t high_bits[32];
    uint8_t codes[64];
    uint8_t parts[12];
    uint8_t scale[2];
  };

  static constexpr Type kType = Type::kQ3_K;
  static constexpr std::string_view kName = "Q3_K";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 110;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {
      .bits = 3, .scales_per_32 = 2, .scale_form = ScaleForm::kBytes};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const size_t p = i / 16;
      const int scale_low = p < 8 ? group.parts[p] & 15 : group.parts[p - 8] >> 4;
      const int scale_high = (group.parts[8 + p % 4] >> (p / 4 * 2)) & 3;
      const float scale = d * static_cast<float>((scale_low | (scale_high << 4)) - 32);
      const int low = (group.codes[i / 128 * 32 + i % 32] >> (i / 32 % 4 * 2)) & 3;
      const int high = (group.high_bits[i % 32] >> (i / 32)) & 1;
      out[i] = scale * static_cast<float>((low | (high << 2)) - 4);
    }
  }

  static void encode(const float* in, Group& group) noexcept {
    store(fit_symmetric(in, {.part_len = 16, .n_steps = 4, .n_part_steps = 32}), group);
  }

  static void store(const SymmetricGroup& fit, Group& group) noexcept {
    group = {};
    store_f16(fit.d, group.scale);
    for (size_t p = 0; p < 16; ++p) {
      const int scale = fit.part_scales[p] + 32;
      group.parts[p % 8] |= static_cast<uint8_t>((scale & 15) << (p < 8 ? 0 : 4));
      group.parts[8 + p % 4] |= static_cast<uint8_t>((scale >> 4) << (p / 4 * 2));
    }
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = fit.codes[i] + 4;
      group.codes[i / 128 * 32 + i % 32] |= static_cast<uint8_t>((code & 3) << (i / 32 % 4 * 2));
      group.high_bits[i % 32] |= static_cast<uint8_t>((code >> 2) << (i / 32));
    }
  }

  template <class Isa>
  static void unpack_codes(const Group& group, int8_t* __restrict codes) noexcept {
    const uint8_t* first = group.codes;
    const uint8_t* second = group.codes + 32;
    const uint8_t* high = group.high_bits;
    for (size_t l = 0; l < 32; ++l) {
      codes[l] = code<Isa>(first[l], high[l] << 2);
      codes[l + 32] = code<Isa>(first[l] >> 2, high[l] << 1);
      codes[l + 64] = code<Isa>(first[l] >> 4, high[l]);
      codes[l + 96] = code<Isa>(first[l] >> 6, high[l] >> 1);
    }
    for (size_t l = 0; l < 32; ++l) {
      codes[l + 128] = code<Isa>(second[l], high[l] >> 2);
      codes[l + 160] = code<Isa>(second[l] >> 2, high[l] >> 3);
      codes[l + 192] = code<Isa>(second[l] >> 4, high[l] >> 4);
      codes[l + 224] = code<Isa>(second[l] >> 6, high[l] >> 5);
    }
  }

  template <class Isa>
  static void unpack_parts(const Group& group, Parts& parts) noexcept {
    parts.unit = unpack_f16<Isa>(group.scale);
    parts.min_unit = 0.0f;
    unpack_scales<Isa>(group, parts.scales);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_by_parts<Isa, Q3_K>(group, codes, scales, offsets);
  }

 private:
  // Combines bits 0-1 of `low` and bit 2 of `high`.
  template <class Isa>
  static int8_t code(int low, int high) noexcept {
    return static_cast<int8_t>(((low & 3) | (high & 4)) - 4);
  }

  // Unpacks four scales at a time: the bytes of a word are parts 4 k .. 4 k + 3.
  template <class Isa>
  static void unpack_scales(const Group& group, uint8_t* __restrict scales) noexcept {
    const uint32_t a = unpack_u32<Isa>(group.parts);
    const uint32_t b = unpack_u32<Isa>(group.parts + 4);
    const uint32_t top = unpack_u32<Isa>(group.parts + 8);
    const uint32_t words[4] = {(a & 0x0F0F0F0Fu) | ((top << 4) & 0x30303030u),
                               (b & 0x0F0F0F0Fu) | ((top << 2) & 0x30303030u),
                               ((a >> 4) & 0x0F0F0F0Fu) | (top & 0x30303030u),
                               ((b >> 4) & 0x0F0F0F0Fu) | ((top >> 2) & 0x30303030u)};
    // Subtracts 32 from each byte. The sign bits keep the bytes separate.
    for (size_t k = 0; k < 4; ++k) {
      const uint32_t word = ((words[k] | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
      __builtin_memcpy(scales + 4 * k, &word, sizeof word);
    }
  }
};

}  // namespace billow::quant
