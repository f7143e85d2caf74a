// Converts IEEE half and bfloat16 to float and back, bit for bit, without hardware support. Rounds
// to nearest even, and keeps NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace billow::quant {

inline float f16_to_f32(uint16_t h) noexcept {
  const uint32_t sign = (h & 0x8000u) << 16;
  const uint32_t rest = h & 0x7FFFu;
  if (rest >= 0x7C00u) return std::bit_cast<float>(sign | 0x7F800000u | (rest << 13));
  if (rest < 0x0400u) {  // zero and subnormals: rest * 2^-24, exactly
    const float magnitude = static_cast<float>(rest) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((rest << 13) + 0x38000000u));
}

inline uint16_t f32_to_f16(float f) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t rest = bits & 0x7FFFFFFFu;
  uint32_t half;
  if (rest >= 0x7F800000u) {
    half = rest > 0x7F800000u ? 0x7E00u : 0x7C00u;
  } else if (rest >= 0x477FF000u) {  // rounds to 65536 or more
    half = 0x7C00u;
  } else if (rest < 0x38800000u) {  // below 2^-14: the addition aligns and rounds the subnormal
    const float aligned = std::bit_cast<float>(rest) + 0.5f;
    half = std::bit_cast<uint32_t>(aligned) - 0x3F000000u;
  } else {
    half = (rest + 0xFFFu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

inline float bf16_to_f32(uint16_t h) noexcept {
  return std::bit_cast<float>(static_cast<uint32_t>(h) << 16);
}

inline uint16_t f32_to_bf16(float f) noexcept {
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

}  // namespace billow::quant
