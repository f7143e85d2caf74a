// Fields of packed groups and the rounding of codes, for the formats in types/. A group may be at
// any byte address in a file. So a field wider than a byte is an array of bytes, and is read with
// memcpy. Pure functions; any thread. Functions that unpack may call are templates on Isa. All
// others are only for decode and encode (see unpack.h).
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "quant/half.h"

namespace billow::quant {

static_assert(std::endian::native == std::endian::little,
              "weights are used in the byte order of the file");

inline float load_f16(const uint8_t (&bytes)[2]) noexcept {
  uint16_t bits;
  std::memcpy(&bits, bytes, sizeof bits);
  return f16_to_f32(bits);
}

inline void store_f16(float value, uint8_t (&bytes)[2]) noexcept {
  const uint16_t bits = f32_to_f16(value);
  std::memcpy(bytes, &bits, sizeof bits);
}

// Returns the integer part of a value of at least 0, limited to 0..max; 0 for NaN.
inline uint8_t truncated_code(float value, int max) noexcept {
  if (!(value > 0.0f)) return 0;
  return static_cast<uint8_t>(value < static_cast<float>(max) ? static_cast<int>(value) : max);
}

// Returns the nearest integer (half to even), limited to min..max; min for NaN.
inline int rounded_code(float value, int min, int max) noexcept {
  if (!(value > static_cast<float>(min))) return min;
  if (value >= static_cast<float>(max)) return max;
  return static_cast<int>(std::nearbyint(value));
}

// Returns the nearest integer (half away from zero), limited to min..max; min for NaN.
inline int code_away_from_zero(float value, int min, int max) noexcept {
  if (!(value > static_cast<float>(min))) return min;
  if (value >= static_cast<float>(max)) return max;
  return static_cast<int>(std::round(value));
}

// Returns 1 / value, or 0 for 0.
inline float reciprocal_or_zero(float value) noexcept {
  return value != 0.0f ? 1.0f / value : 0.0f;
}

// Returns the element of max magnitude, the first of equal ones; 0 if n is 0. Ignores NaN.
inline float extreme_of(const float* x, size_t n) noexcept {
  float extreme = 0.0f;
  for (size_t i = 0; i < n; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  return extreme;
}

template <class Isa>
inline float unpack_f16(const uint8_t (&bytes)[2]) noexcept {
  uint16_t bits;
  __builtin_memcpy(&bits, bytes, sizeof bits);
  return Isa::f16_to_f32(bits);
}

template <class Isa>
inline uint32_t unpack_u32(const uint8_t* bytes) noexcept {
  uint32_t word;
  __builtin_memcpy(&word, bytes, sizeof word);
  return word;
}

// Sets `count` floats to one value.
template <class Isa, size_t count>
inline void fill(float* __restrict out, float value) noexcept {
  for (size_t i = 0; i < count; ++i) out[i] = value;
}

// Sets byte i of 16 to 255 if bit i of the 16 bits is set, otherwise to 0. Each byte gets the half
// that contains its bit, and keeps that bit. Uses the compiler's vectors, because compilers do not
// turn a loop over bits into this code.
template <class Isa>
inline void unpack_bits(const uint8_t* bits, uint8_t* __restrict out) noexcept {
  using Bytes = uint8_t __attribute__((vector_size(16)));
  using Words = uint16_t __attribute__((vector_size(16)));
  uint16_t word;
  __builtin_memcpy(&word, bits, sizeof word);
  const Bytes pairs = reinterpret_cast<Bytes>(Words{} + word);
  const Bytes halves =
      __builtin_shufflevector(pairs, pairs, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
  const Bytes masks = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
  const auto set = (halves & masks) == masks;
  __builtin_memcpy(out, &set, sizeof set);
}

}  // namespace billow::quant
