// Q5_0: 32 elements in 22 bytes.
//   bytes 0-1   f16 scale d
//   bytes 2-5   bit i of these 32 bits (little-endian) is bit 4 of element i
//   bytes 6-21  bits 0-3: byte j holds element j in its low and element j + 16 in its high half
//   x = d * (code - 16), codes 0..31
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct Q5_0 {
  struct Group {
    uint8_t scale[2];
    uint8_t high_bits[4];
    uint8_t codes[16];
  };

  static constexpr Type kType = Type::kQ5_0;
  static constexpr std::string_view kName = "Q5_0";
  static constexpr size_t kGroupLen = 32;
  static constexpr size_t kGroupBytes = 22;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 5};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int low = i < 16 ? group.codes[i] & 15 : group.codes[i - 16] >> 4;
      const int high = (group.high_bits[i / 8] >> (i % 8)) & 1;
      out[i] = d * static_cast<float>((low | (high << 4)) - 16);
    }
  }

  // The element of max magnitude becomes code 0, so the scale has the opposite sign.
  static void encode(const float* in, Group& group) noexcept {
    const float extreme = extreme_of(in, kGroupLen);
    const float d = extreme / -16.0f;
    const float inverse = reciprocal_or_zero(d);
    uint8_t codes[kGroupLen];
    for (size_t i = 0; i < kGroupLen; ++i) codes[i] = truncated_code(in[i] * inverse + 16.5f, 31);
    store(d, codes, group);
  }

  static void store(float d, const uint8_t* codes, Group& group) noexcept {
    group = {};
    store_f16(d, group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const int code = codes[i];
      group.codes[i % 16] |= static_cast<uint8_t>((code & 15) << (i < 16 ? 0 : 4));
      group.high_bits[i / 8] |= static_cast<uint8_t>((code >> 4) << (i % 8));
    }
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    uint8_t low_set[16];
    uint8_t high_set[16];
    unpack_bits<Isa>(group.high_bits, low_set);
    unpack_bits<Isa>(group.high_bits + 2, high_set);
#pragma GCC unroll 1
    for (size_t j = 0; j < 16; ++j) {
      codes[j] = static_cast<int8_t>(((group.codes[j] & 15) | (low_set[j] & 16)) - 16);
      codes[j + 16] = static_cast<int8_t>(((group.codes[j] >> 4) | (high_set[j] & 16)) - 16);
    }
    fill<Isa, 2>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 2>(offsets, 0.0f);
  }
};

}  // namespace billow::quant
