// How the keys (K) and values (V) of one KV head lie in a block of 64 positions. Both parts begin
// at multiples of 64 bytes of the block. Pure arithmetic.
//   F16:  K as [len][64], V as [64][len], F16 each.
//   Q8_0: int8 codes with one F16 scale for each 32 values of a position (the last one for 16 where
//         len is no multiple of 32); value = code * scale. K: codes [len / 4][64][4], then scales
//         [groups][64]. V: codes [64][len], then scales [groups][64]. Each group of a key is kept
//         rotated, as H key / sqrt(n), H the Hadamard matrix; so are queries when they meet keys.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::kernels {

inline constexpr size_t kBlockPositions = 64;

enum class KvType : uint8_t { kF16, kQ8_0 };

inline constexpr size_t kKvGroup = 32;  // values that share a scale
inline constexpr size_t kv_groups(size_t len) { return (len + kKvGroup - 1) / kKvGroup; }

// Bytes of the codes, or of the F16 values, of K or V of one head; and with their scales. len is a
// multiple of 16.
inline constexpr size_t kv_code_bytes(KvType type, size_t len) {
  return kBlockPositions * len * (type == KvType::kF16 ? 2 : 1);
}
inline constexpr size_t kv_bytes(KvType type, size_t len) {
  const size_t scales = type == KvType::kF16 ? 0 : kv_groups(len);
  return kv_code_bytes(type, len) + kBlockPositions * scales * sizeof(uint16_t);
}

}  // namespace billow::kernels
