// TQ1_0: 256 elements in 54 bytes. Each element has three values; a byte holds five elements.
//   bytes 0-31   element 32 n + j is digit n of byte j, n = 0..4
//   bytes 32-47  element 160 + 16 n + j is digit n of byte 32 + j, n = 0..4
//   bytes 48-51  element 240 + 4 n + j is digit n of byte 48 + j, n = 0..3
//   bytes 52-53  f16 scale d
// A byte b is a fraction b / 256. Its digits to base 3 are counted from the point: digit n is the
// integer part of 3 f, where f is the fraction of 3^n b / 256.
//   x = d * (digit - 1)
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "quant/packed.h"
#include "quant/packing.h"
#include "quant/type.h"

namespace billow::quant {

struct TQ1_0 {
  struct Group {
    uint8_t digits[52];
    uint8_t scale[2];
  };

  static constexpr Type kType = Type::kTQ1_0;
  static constexpr std::string_view kName = "TQ1_0";
  static constexpr size_t kGroupLen = 256;
  static constexpr size_t kGroupBytes = 54;
  static constexpr bool kInteger = true;
  static constexpr Packing kPacking = {.bits = 2};

  static void decode(const Group& group, float* out) noexcept {
    const float d = load_f16(group.scale);
    for (size_t i = 0; i < kGroupLen; ++i) {
      const Place place = place_of(i);
      uint8_t fraction = group.digits[place.byte];
      for (size_t n = 0; n < place.digit; ++n) fraction = static_cast<uint8_t>(fraction * 3);
      out[i] = d * static_cast<float>((fraction * 3 >> 8) - 1);
    }
  }

  // The scale is the max magnitude. A byte is rounded up, so that no digit is lost.
  static void encode(const float* in, Group& group) noexcept {
    constexpr unsigned kPowers[5] = {81, 27, 9, 3, 1};
    const float d = std::fabs(extreme_of(in, kGroupLen));
    const float inverse = reciprocal_or_zero(d);
    unsigned sums[52] = {};
    for (size_t i = 0; i < kGroupLen; ++i) {
      const auto digit = static_cast<unsigned>(code_away_from_zero(in[i] * inverse, -1, 1) + 1);
      const Place place = place_of(i);
      sums[place.byte] += digit * kPowers[place.digit];
    }
    for (size_t j = 0; j < 52; ++j) {
      group.digits[j] = static_cast<uint8_t>((sums[j] * 256 + 242) / 243);
    }
    store_f16(d, group.scale);
  }

  template <class Isa>
  static void unpack(const Group& group, int8_t* __restrict codes, float* __restrict scales,
                     float* __restrict offsets) noexcept {
    unpack_digits<Isa, 32, 5>(group.digits, codes);
    unpack_digits<Isa, 16, 5>(group.digits + 32, codes + 160);
    unpack_digits<Isa, 4, 4>(group.digits + 48, codes + 240);
    fill<Isa, 16>(scales, unpack_f16<Isa>(group.scale));
    fill<Isa, 16>(offsets, 0.0f);
  }

 private:
  struct Place {
    size_t byte;
    size_t digit;
  };
  static Place place_of(size_t i) noexcept {
    if (i < 160) return {i % 32, i / 32};
    if (i < 240) return {32 + i % 16, (i - 160) / 16};
    return {48 + i % 4, (i - 240) / 4};
  }

  // Unpacks the digits of n bytes as codes; digit k of byte j is code k n + j.
  template <class Isa, size_t n, size_t n_digits>
  static void unpack_digits(const uint8_t* bytes, int8_t* __restrict codes) noexcept {
    uint8_t fractions[n];
    __builtin_memcpy(fractions, bytes, n);
    for (size_t k = 0; k < n_digits; ++k) {
#pragma GCC unroll 1
      for (size_t j = 0; j < n; ++j) {
        codes[k * n + j] = static_cast<int8_t>((fractions[j] * 3 >> 8) - 1);
        fractions[j] = static_cast<uint8_t>(fractions[j] * 3);
      }
    }
  }
};

}  // namespace billow::quant
