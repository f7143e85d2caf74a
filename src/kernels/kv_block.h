// How the keys (K) and values (V) of one KV head lie in a block of 64 positions. Both parts begin
// at multiples of 64 bytes of the block; value = code * scale. Pure arithmetic.
//   Int16: codes of 16 bits in pairs, one BF16 scale for each position. K: codes [len / 2][64][2],
//          whose Euclidean length is at most kLongestKey at each position. V: codes [32][len][2],
//          the pairs being neighbouring positions, none above kGreatestValue. Then scales [64].
//   Q8_0:  codes of 8 bits with one F16 scale for each 32 values of a position (the last one for 16
//          where len is no multiple of 32). K: codes [len / 4][64][4], then scales [groups][64].
//          V: codes [32][len][2], as above, then scales [groups][64]. Each group of a key is kept
//          rotated, as H key / sqrt(n), H the Hadamard matrix; so are queries when they meet keys.
//   F32:   floats without scales, to compare with other programs to the last digit. K: [len][64],
//          V: [64][len].
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::kernels {

inline constexpr size_t kBlockPositions = 64;

enum class KvType : uint8_t { kInt16, kQ8_0, kF32 };

// By Cauchy and Schwarz, products of queries and keys that are no longer than this fit in 31 bits.
inline constexpr float kLongestKey = 32700.0f;
// The values of 64 positions, times weights of at most kGreatestWeight, fit in 31 bits.
inline constexpr float kGreatestValue = 4095.0f;
inline constexpr float kGreatestWeight = 8191.0f;

// Whether n products of two codes of at most so much fit in the 32 bits of a sum.
inline constexpr bool fits_a_sum(size_t n, float max, float other_max) {
  return n * static_cast<uint64_t>(max) * static_cast<uint64_t>(other_max) <= 0x7FFFFFFFu;
}
static_assert(fits_a_sum(kBlockPositions, kGreatestValue, kGreatestWeight));
// Rounding makes a key or a query of up to 512 values no longer than by 12: half of a code in each.
static_assert(fits_a_sum(1, kLongestKey + 12.0f, kLongestKey + 12.0f));

inline constexpr size_t kKvGroup = 32;  // values of Q8_0 that share a scale
inline constexpr size_t kv_groups(size_t len) { return (len + kKvGroup - 1) / kKvGroup; }

// Bytes of the codes of K or V of one head; and with their scales. len is a multiple of 16.
inline constexpr size_t kv_code_bytes(KvType type, size_t len) {
  const size_t code = type == KvType::kF32 ? 4 : type == KvType::kInt16 ? 2 : 1;
  return kBlockPositions * len * code;
}
inline constexpr size_t kv_bytes(KvType type, size_t len) {
  const size_t scales = type == KvType::kF32 ? 0 : type == KvType::kInt16 ? 1 : kv_groups(len);
  return kv_code_bytes(type, len) + kBlockPositions * scales * sizeof(uint16_t);
}

}  // namespace billow::kernels
