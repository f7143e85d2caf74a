// Writes keys and values of one position into a KV block (kernels/kv_block.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"
#include "kernels/kv_block.h"

namespace billow::kernels {
namespace {

// Returns the max magnitude of n values, a multiple of 16; not finite if any value is not finite.
inline float max_magnitude(const float* x, size_t n) noexcept {
  F extreme = Isa::zero();
  for (size_t i = 0; i < n; i += Isa::kLanes)
    extreme = Isa::greater_magnitude(extreme, Isa::load(x + i));
  return Isa::max_magnitude(extreme);
}

// One step of a Hadamard transform within vectors: lanes i and i ^ H become their sum and their
// difference (the first minus the second).
template <size_t H, size_t V>
inline void mix_lanes(F (&v)[V]) noexcept {
  if constexpr (H < Isa::kLanes) {
    float signs[Isa::kLanes];
    for (size_t i = 0; i < Isa::kLanes; ++i) signs[i] = i & H ? -1.0f : 1.0f;
    const F sign = Isa::load(signs);
    for (size_t i = 0; i < V; ++i) v[i] = Isa::fma(v[i], sign, Isa::exchange<H>(v[i]));
  }
}

// out = H x / sqrt(N) for N = 32 or 16, where H is the Hadamard matrix of +1 and -1. H / sqrt(N) is
// its own inverse and keeps dot products. It spreads a value that is far above the others over the
// group. Otherwise the group's scale would be too coarse for the other values.
template <size_t N>
inline void rotate_group(const float* x, float* out) noexcept {
  constexpr size_t kVectors = N / Isa::kLanes;
  F v[kVectors];
  for (size_t i = 0; i < kVectors; ++i) v[i] = Isa::load(x + i * Isa::kLanes);
  for (size_t h = kVectors / 2; h > 0; h /= 2) {
    for (size_t i = 0; i < kVectors; ++i) {
      if ((i & h) != 0) continue;
      const F sum = v[i] + v[i + h];
      v[i + h] = v[i] - v[i + h];
      v[i] = sum;
    }
  }
  mix_lanes<8>(v);
  mix_lanes<4>(v);
  mix_lanes<2>(v);
  mix_lanes<1>(v);
  const F factor = Isa::set1(N == 32 ? 0.17677670f : 0.25f);
  for (size_t i = 0; i < kVectors; ++i) Isa::store(out + i * Isa::kLanes, v[i] * factor);
}

// codes[i] = x[i] * inverse to the nearest, in kMin .. kMax. If inverse is 0, all codes are 0, even
// for NaN, which has no code.
template <size_t N, int kMin = -127, int kMax = 127>
inline void encode_group(const float* x, float inverse, int8_t* codes) noexcept {
  for (size_t i = 0; i < N; ++i) {
    float t = inverse == 0.0f ? 0.0f : x[i] * inverse;
    t = t > kMax ? kMax : t;
    t = t < kMin ? kMin : t;
    codes[i] = static_cast<int8_t>(static_cast<int>(t + (t < 0.0f ? -0.5f : 0.5f)));
  }
}

// Encodes one group of keys (rotated) or values; returns its scale as F16. The scale is not finite
// if values are not finite or too large for it. It is 0 if values are too small.
template <size_t N>
inline uint16_t encode_kv_group(const float* x, bool rotate, int8_t* codes) noexcept {
  float rotated[N];
  if (rotate) {
    rotate_group<N>(x, rotated);
    x = rotated;
  }
  uint16_t halves[Isa::kLanes];
  Isa::store_f16(halves, Isa::set1(max_magnitude(x, N) / 127.0f));
  const float d = Isa::f16_to_f32(halves[0]);
  const bool usable = d > 0.0f && d < 65536.0f;
  encode_group<N>(x, usable ? 1.0f / d : 0.0f, codes);
  return halves[0];
}

// Rotates one group of keys or values and encodes the result in 4 bits; returns its scale as F16,
// with the same meaning as above. The value with the max magnitude gets the code -8, so the scale
// can be negative. This uses all 16 codes.
template <size_t N>
inline uint16_t encode_kv_group4(const float* x, int8_t* codes) noexcept {
  float rotated[N];
  rotate_group<N>(x, rotated);
  const float magnitude = max_magnitude(rotated, N);
  F largest = Isa::load(rotated);
  for (size_t i = Isa::kLanes; i < N; i += Isa::kLanes)
    largest = Isa::max(largest, Isa::load(rotated + i));
  const float extreme = Isa::largest(largest) == magnitude ? magnitude : -magnitude;
  uint16_t halves[Isa::kLanes];
  Isa::store_f16(halves, Isa::set1(extreme * -0.125f));
  const float d = Isa::f16_to_f32(halves[0]);
  const bool usable = d != 0.0f && d < 65536.0f && d > -65536.0f;
  encode_group<N, -8, 7>(rotated, usable ? 1.0f / d : 0.0f, codes);
  return halves[0];
}

// Returns sqrt(sum of squares) of n values, a multiple of 16.
inline float euclidean_length(const float* x, size_t n) noexcept {
  F sum = Isa::zero();
  for (size_t i = 0; i < n; i += Isa::kLanes) {
    const F v = Isa::load(x + i);
    sum = Isa::fma(v, v, sum);
  }
  return __builtin_sqrtf(Isa::sum(sum));
}

// Stores a vector as 16-bit codes: x * inverse to the nearest; 0 if inverse is 0, whatever x is.
inline void store_scaled16(int16_t* codes, const float* x, float inverse) noexcept {
  Isa::store_codes16(codes, inverse == 0.0f ? Isa::zero() : Isa::load(x) * Isa::set1(inverse));
}

// The same for 16 values.
inline void encode_codes16(const float* x, float inverse, int16_t* codes) noexcept {
  for (size_t i = 0; i < 16; i += Isa::kLanes) store_scaled16(codes + i, x + i, inverse);
}

// Returns the factor from values to codes. It is 0 if values are too small for a scale or not
// finite. In the latter case the scale is not finite, too.
inline float inverse_of(float scale) noexcept {
  return scale > 1e-30f && scale < 1e30f ? 1.0f / scale : 0.0f;
}

// Returns the smallest BF16 that is not below x.
inline uint16_t bf16_above(float x) noexcept {
  if (!(x < 1e30f)) return 0x7FC0;  // NaN
  return static_cast<uint16_t>((__builtin_bit_cast(uint32_t, x) + 0xFFFFu) >> 16);
}

inline float from_bf16(uint16_t x) noexcept {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x) << 16);
}

inline uint16_t* scales_of(KvType type, std::byte* block, size_t len) noexcept {
  return reinterpret_cast<uint16_t*>(block + kv_code_bytes(type, len));
}

// Copies n words of 4 bytes to places `stride` bytes apart.
inline void spread_words(const void* words, size_t n, std::byte* out, size_t stride) noexcept {
  const auto* from = static_cast<const std::byte*>(words);
  for (size_t i = 0; i < n; ++i) __builtin_memcpy(out + i * stride, from + 4 * i, 4);
}

inline void store_key_codes16(const float* x, size_t len, size_t within,
                              std::byte* block) noexcept {
  const uint16_t scale = bf16_above(euclidean_length(x, len) / kLongestKey);
  scales_of(KvType::kInt16, block, len)[within] = scale;
  const float inverse = inverse_of(from_bf16(scale));
  for (size_t at = 0; at < len; at += 16) {
    int16_t codes[16];
    encode_codes16(x + at, inverse, codes);
    spread_words(codes, 8, block + (at / 2 * kBlockPositions + within) * 4, kBlockPositions * 4);
  }
}

inline void store_value_codes16(const float* x, size_t len, size_t within,
                                std::byte* block) noexcept {
  const uint16_t scale = bf16_above(max_magnitude(x, len) / kGreatestValue);
  scales_of(KvType::kInt16, block, len)[within] = scale;
  const float inverse = inverse_of(from_bf16(scale));
  auto* out = reinterpret_cast<int16_t*>(block) + within / 2 * 2 * len + within % 2;
  for (size_t at = 0; at < len; at += 16, out += 32) {
    int16_t codes[16];
    encode_codes16(x + at, inverse, codes);
    for (size_t i = 0; i < 16; ++i) out[2 * i] = codes[i];
  }
}

inline void store_key_codes8(const float* x, size_t len, size_t within, std::byte* block) noexcept {
  uint16_t* scales = scales_of(KvType::kQ8_0, block, len) + within;
  for (size_t at = 0; at < len; at += kKvGroup, scales += kBlockPositions) {
    const size_t n = len - at < kKvGroup ? len - at : kKvGroup;
    int8_t codes[kKvGroup];
    const auto encode = n == kKvGroup ? encode_kv_group<kKvGroup> : encode_kv_group<16>;
    *scales = encode(x + at, true, codes);
    spread_words(codes, n / 4, block + (at / 4 * kBlockPositions + within) * 4,
                 kBlockPositions * 4);
  }
}

inline void store_value_codes8(const float* x, size_t len, size_t within,
                               std::byte* block) noexcept {
  uint16_t* scales = scales_of(KvType::kQ8_0, block, len) + within;
  auto* out = reinterpret_cast<int8_t*>(block) + within / 2 * 2 * len + within % 2;
  for (size_t at = 0; at < len; at += kKvGroup, scales += kBlockPositions) {
    const size_t n = len - at < kKvGroup ? len - at : kKvGroup;
    int8_t codes[kKvGroup];
    const auto encode = n == kKvGroup ? encode_kv_group<kKvGroup> : encode_kv_group<16>;
    *scales = encode(x + at, false, codes);
    for (size_t i = 0; i < n; ++i) out[2 * (at + i)] = codes[i];
  }
}

// Encodes group g of keys or values in 4 bits; returns its scale. A last group of 16 values fills
// the other 16 codes with 0.
inline uint16_t encode_group4(const float* x, size_t len, size_t g, int8_t* codes) noexcept {
  const size_t at = g * kKvGroup;
  if (len - at >= kKvGroup) return encode_kv_group4<kKvGroup>(x + at, codes);
  for (size_t i = 16; i < kKvGroup; ++i) codes[i] = 0;
  return encode_kv_group4<16>(x + at, codes);
}

inline void store_key_codes4(const float* x, size_t len, size_t within, std::byte* block) noexcept {
  uint16_t* scales = scales_of(KvType::kQ4_0, block, len) + within;
  for (size_t g = 0; g < kv_groups(len); ++g, scales += kBlockPositions) {
    int8_t codes[kKvGroup];
    *scales = encode_group4(x, len, g, codes);
    uint8_t bytes[kKvGroup / 2];
    for (size_t i = 0; i < kKvGroup / 2; ++i) {
      const int8_t* low = codes + i / 4 * 8 + i % 4;
      bytes[i] = static_cast<uint8_t>((low[0] + 8) | (low[4] + 8) << 4);
    }
    spread_words(bytes, 4, block + (g * 4 * kBlockPositions + within) * 4, kBlockPositions * 4);
  }
}

inline void store_value_codes4(const float* x, size_t len, size_t within,
                               std::byte* block) noexcept {
  uint16_t* scales = scales_of(KvType::kQ4_0, block, len) + within;
  const size_t n_groups = kv_groups(len);
  auto* out = reinterpret_cast<uint8_t*>(block) + within / 2 * n_groups * kKvGroup + within % 2;
  for (size_t g = 0; g < n_groups; ++g, scales += kBlockPositions, out += kKvGroup) {
    int8_t codes[kKvGroup];
    *scales = encode_group4(x, len, g, codes);
    for (size_t i = 0; i < kKvGroup / 2; ++i)
      out[2 * i] = static_cast<uint8_t>((codes[i] & 15) | (codes[16 + i] & 15) << 4);
  }
}

inline void store_key_floats(const float* x, size_t len, size_t within, std::byte* block) noexcept {
  auto* out = reinterpret_cast<float*>(block) + within;
  for (size_t i = 0; i < len; ++i) out[i * kBlockPositions] = x[i];
}

inline void store_value_floats(const float* x, size_t len, size_t within,
                               std::byte* block) noexcept {
  __builtin_memcpy(reinterpret_cast<float*>(block) + within * len, x, len * sizeof(float));
}

using StoreVector = void (*)(const float*, size_t, size_t, std::byte*) noexcept;

// In the order of KvType: how keys and values are stored.
constexpr StoreVector kStoreVectors[][2] = {{store_key_codes16, store_value_codes16},
                                            {store_key_codes8, store_value_codes8},
                                            {store_key_floats, store_value_floats},
                                            {store_key_codes4, store_value_codes4}};

inline void store_kv(const StoreKvArgs& args) noexcept {
  kStoreVectors[static_cast<size_t>(args.types.k)][0](args.k, args.k_len, args.within,
                                                      args.k_block);
  kStoreVectors[static_cast<size_t>(args.types.v)][1](args.v, args.v_len, args.within,
                                                      args.v_block);
}

}  // namespace
}  // namespace billow::kernels
