// The 12 bytes in which Q4_K and Q5_K keep eight scales and eight minima of 6 bits. For part j < 4,
// the scale is the low 6 bits of byte j, and the minimum is the low 6 bits of byte j + 4. For part
// j >= 4, the low 4 bits of the scale are the low half of byte j + 4, and those of the minimum are
// its high half. The upper 2 bits of the scale are the top of byte j - 4, and those of the minimum
// are the top of byte j. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quant/packed.h"

namespace billow::quant {

struct SixBitPair {
  uint8_t scale;
  uint8_t min;
};

inline SixBitPair load_six_bit(const uint8_t (&bytes)[12], size_t part) noexcept {
  if (part < 4) {
    return {static_cast<uint8_t>(bytes[part] & 63), static_cast<uint8_t>(bytes[part + 4] & 63)};
  }
  return {static_cast<uint8_t>((bytes[part + 4] & 15) | ((bytes[part - 4] >> 6) << 4)),
          static_cast<uint8_t>((bytes[part + 4] >> 4) | ((bytes[part] >> 6) << 4))};
}

// Values are at most 63.
inline void store_six_bit(const uint8_t* scales, const uint8_t* mins,
                          uint8_t (&bytes)[12]) noexcept {
  for (size_t j = 0; j < 4; ++j) {
    bytes[j] = static_cast<uint8_t>(scales[j] | ((scales[j + 4] >> 4) << 6));
    bytes[j + 4] = static_cast<uint8_t>(mins[j] | ((mins[j + 4] >> 4) << 6));
    bytes[j + 8] = static_cast<uint8_t>((scales[j + 4] & 15) | ((mins[j + 4] & 15) << 4));
  }
}

// Writes all scales and minima, one byte each.
template <class Isa>
inline void unpack_six_bit(const uint8_t (&bytes)[12], uint8_t* __restrict scales,
                           uint8_t* __restrict mins) noexcept {
  const uint32_t a = unpack_u32<Isa>(bytes);
  const uint32_t b = unpack_u32<Isa>(bytes + 4);
  const uint32_t c = unpack_u32<Isa>(bytes + 8);
  const uint64_t scale_word =
      (a & 0x3F3F3F3Fu) | uint64_t{(c & 0x0F0F0F0Fu) | ((a >> 2) & 0x30303030u)} << 32;
  const uint64_t min_word =
      (b & 0x3F3F3F3Fu) | uint64_t{((c >> 4) & 0x0F0F0F0Fu) | ((b >> 2) & 0x30303030u)} << 32;
  __builtin_memcpy(scales, &scale_word, sizeof scale_word);
  __builtin_memcpy(mins, &min_word, sizeof min_word);
}

}  // namespace billow::quant
