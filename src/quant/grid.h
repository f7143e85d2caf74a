// Shared functions of the IQ formats. The levels of 8 or 4 adjacent elements are an entry of a grid
// (grids.h); each element has a separate sign. Pure functions; any thread. Templates on Isa are for
// unpack. All other functions are only for decode and encode (see unpack.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace billow::quant {

// Returns the level of element i of an entry with level_bits bits for each level.
inline unsigned level_of(uint16_t entry, size_t i, size_t level_bits) noexcept {
  return (entry >> (i * level_bits)) & ((1u << level_bits) - 1u);
}

// Returns 7 signs and the eighth, which makes the number of set bits even.
inline uint8_t even_signs(uint32_t seven) noexcept {
  const uint32_t low = seven & 127u;
  const uint32_t folded = low ^ (low >> 4);
  return static_cast<uint8_t>(low | (((0x6996u >> (folded & 15u)) & 1u) << 7));
}

inline uint32_t load_u32(const uint8_t* bytes) noexcept {
  uint32_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

template <class Isa>
inline uint32_t unpack_even_signs(uint32_t seven) noexcept {
  const uint32_t low = seven & 127u;
  const uint32_t folded = low ^ (low >> 4);
  return low | (((0x6996u >> (folded & 15u)) & 1u) << 7);
}

// Returns the 8 levels of 2 bits as bytes.
template <class Isa>
inline uint64_t spread_levels8(uint64_t entry) noexcept {
  uint64_t x = (entry | (entry << 24)) & 0x000000FF000000FFu;
  x = (x | (x << 12)) & 0x000F000F000F000Fu;
  return (x | (x << 6)) & 0x0303030303030303u;
}

// Returns the 4 levels of 3 bits as bytes.
template <class Isa>
inline uint32_t spread_levels4(uint32_t entry) noexcept {
  const uint32_t x = (entry | (entry << 10)) & 0x003F003Fu;
  return (x | (x << 5)) & 0x07070707u;
}

// Returns a word whose byte i is 1 if bit i is set, otherwise 0.
template <class Isa>
inline uint64_t spread_bits(uint64_t bits) noexcept {
  const uint64_t own = (bits * 0x0101010101010101u) & 0x8040201008040201u;
  return ((own + 0x7F7F7F7F7F7F7F7Fu) >> 7) & 0x0101010101010101u;
}

}  // namespace billow::quant
