// The layout of the keys (K) and values (V) of one KV head in a block of 64 positions. Both parts
// begin at multiples of 64 bytes of the block; value = code * scale. Pure arithmetic.
//   Int16: 16-bit codes in pairs, then one BF16 scale for each position, [64].
//          K: codes [len / 2][64][2]. Per position, their Euclidean length is at most kLongestKey.
//          V: codes [32][len][2] in pairs of adjacent positions. No code is above kGreatestValue.
//   Q8_0:  8-bit codes, then one F16 scale for each 32 values of a position, [groups][64]. If len
//          is not a multiple of 32, the last group has 16 values.
//          K: codes [len / 4][64][4]. Each group of a key is rotated: H key / sqrt(n), where H is
//          the Hadamard matrix. Queries are rotated, too, before they are multiplied with keys.
//          V: codes [32][len][2] in pairs of adjacent positions.
//   Q4_0:  4-bit codes from -8 to 7, then one F16 scale for each 32 values of a position,
//          [groups][64]. Groups of keys and of values are rotated. Attention rotates its outputs
//          back: the rotation is its own inverse, and a sum of rotated values is the rotated sum.
//          Each last group has room for 32 values.
//          K: bytes [groups * 4][64][4]: byte i of the row j has value 8 j + i in its low half and
//          value 8 j + 4 + i in its high half, each as code + 8.
//          V: bytes [32][groups * 16][2] in pairs of adjacent positions: byte i of group g has
//          value 32 g + i in its low half and value 32 g + 16 + i in its high half, as two's
//          complements.
//   F32:   floats without scales, for exact comparisons with other programs.
//          K: [len][64]. V: [64][len].
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::kernels {

inline constexpr size_t kBlockPositions = 64;

enum class KvType : uint8_t { kInt16, kQ8_0, kF32, kQ4_0 };

// The formats of keys and of values. They differ only for keys with a bias, which need 8 bits: with
// Q4_0, such keys are in Q8_0.
struct KvTypes {
  constexpr KvTypes() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): one format for both is the normal case
  constexpr KvTypes(KvType both) : k(both), v(both) {}
  constexpr KvTypes(KvType k_, KvType v_) : k(k_), v(v_) {}
  KvType k = KvType::kInt16;
  KvType v = KvType::kInt16;
};
inline constexpr KvTypes kv_types(KvType type, bool has_key_bias) {
  return has_key_bias && type == KvType::kQ4_0 ? KvTypes(KvType::kQ8_0, type) : KvTypes(type);
}

// By Cauchy and Schwarz, products of queries and keys up to this length fit in 31 bits.
inline constexpr float kLongestKey = 32700.0f;
// The values of 64 positions, times weights of at most kGreatestWeight, fit in 31 bits.
inline constexpr float kGreatestValue = 4095.0f;
inline constexpr float kGreatestWeight = 8191.0f;

// Returns whether the sum of n products of codes up to these maxima fits in 32 bits.
inline constexpr bool fits_a_sum(size_t n, float max, float other_max) {
  return n * static_cast<uint64_t>(max) * static_cast<uint64_t>(other_max) <= 0x7FFFFFFFu;
}
static_assert(fits_a_sum(kBlockPositions, kGreatestValue, kGreatestWeight));
// Rounding adds at most 12 to the length of a key or query of up to 512 values: half a code in
// each.
static_assert(fits_a_sum(1, kLongestKey + 12.0f, kLongestKey + 12.0f));

inline constexpr size_t kKvGroup = 32;  // values of Q8_0 and Q4_0 that share a scale
inline constexpr size_t kv_groups(size_t len) { return (len + kKvGroup - 1) / kKvGroup; }

// Bytes of the codes of K or V of one head, without and with their scales. len is a multiple of 16.
inline constexpr size_t kv_code_bytes(KvType type, size_t len) {
  if (type == KvType::kQ4_0) return kBlockPositions * kv_groups(len) * kKvGroup / 2;
  const size_t code = type == KvType::kF32 ? 4 : type == KvType::kInt16 ? 2 : 1;
  return kBlockPositions * len * code;
}
inline constexpr size_t kv_bytes(KvType type, size_t len) {
  const size_t scales = type == KvType::kF32 ? 0 : type == KvType::kInt16 ? 1 : kv_groups(len);
  return kv_code_bytes(type, len) + kBlockPositions * scales * sizeof(uint16_t);
}

}  // namespace billow::kernels
