// The inner loops of attention: R query rows with one block of 64 positions. R is at most
// Isa::kAttentionRows, so that the sums stay in registers. The order of each score's and each
// output's sum does not depend on R.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/body/kv_store.inl.h"
#include "kernels/body/math.inl.h"
#include "kernels/kernel_table.h"

namespace billow::kernels {
namespace {

// Vectors of positions, or of a value's dimensions, whose sums R rows keep at the same time.
template <size_t R>
constexpr size_t kStripsFor = 3 * R <= Isa::kAttentionRows ? 4 : 2;

// Prefetches `bytes` bytes of the next block into the second cache level, because the first level
// is full of this block. The address may be invalid.
inline void prefetch(uintptr_t begin, size_t bytes) noexcept {
  for (size_t i = 0; i < bytes; i += 64) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a pointer may not point beyond its array
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i), 0, 2);
  }
}

// Packs rows of queries as 16-bit codes, for 16-bit keys: [k_len / 2][n_rows][2], no longer than
// kLongestKey, then their scales.
inline void pack_query_codes16(const float* const* rows, size_t n_rows, size_t k_len, float factor,
                               float* packed) noexcept {
  auto* codes = reinterpret_cast<std::byte*>(packed);
  float* scales = packed + n_rows * k_len / 2;
  for (size_t r = 0; r < n_rows; ++r) {
    const float scale = euclidean_length(rows[r], k_len) / kLongestKey;
    const float inverse = inverse_of(scale);
    scales[r] = scale * factor;
    for (size_t d = 0; d < k_len; d += 16) {
      int16_t group[16];
      encode_codes16(rows[r] + d, inverse, group);
      spread_words(group, 8, codes + (d / 2 * n_rows + r) * 4, n_rows * 4);
    }
  }
}

// Encodes one group of a query as rotated codes; returns its scale. If a value is not finite, the
// scale is not finite.
template <size_t N>
inline float encode_query_group(const float* x, int8_t* codes) noexcept {
  float rotated[N];
  rotate_group<N>(x, rotated);
  const float largest = max_magnitude(rotated, N);
  const bool usable = largest > 1e-30f && largest < 1e30f;
  encode_group<N>(rotated, usable ? 127.0f / largest : 0.0f, codes);
  return largest * (1.0f / 127.0f);
}

// Keys in codes of 8 or 4 bits. at() returns the codes of the values 8 * pair + 4 * kHalf and the
// next 3, with kBias added, from position `at` on; dot() adds their products with a query.
struct KeyCodes8 {
  static constexpr KvType kType = KvType::kQ8_0;
  static constexpr int32_t kBias = Isa::kSignedBias;
  template <size_t kHalf>
  static Isa::Bytes at(const uint8_t* keys, size_t pair, size_t at) noexcept {
    return Isa::prepare_signed(
        Isa::load_bytes(keys + ((2 * pair + kHalf) * kBlockPositions + at) * 4));
  }
  static Isa::Ints dot(Isa::Ints sum, Isa::Bytes key, Isa::Bytes query) noexcept {
    return Isa::dot4_signed(sum, key, query);
  }
};

struct KeyCodes4 {
  static constexpr KvType kType = KvType::kQ4_0;
  static constexpr int32_t kBias = 8;
  template <size_t kHalf>
  static Isa::Bytes at(const uint8_t* keys, size_t pair, size_t at) noexcept {
    const Isa::Bytes both = Isa::load_bytes(keys + (pair * kBlockPositions + at) * 4);
    return kHalf == 0 ? both & 15 : both >> 4;
  }
  static Isa::Ints dot(Isa::Ints sum, Isa::Bytes key, Isa::Bytes query) noexcept {
    return Isa::dot4(sum, key, query);
  }
};

// Packs rows of queries as rotated 8-bit codes with a scale for each 32, for keys in codes of 8 or
// 4 bits: [k_len / 4][R][4], then [groups][R] scales, then [groups][R] sums of codes times the bias
// of the keys, negative.
template <class Keys>
inline void pack_query_codes8(const float* const* rows, size_t n_rows, size_t k_len, float factor,
                              float* packed) noexcept {
  const size_t n_groups = kv_groups(k_len);
  auto* codes = reinterpret_cast<std::byte*>(packed);
  float* scales = packed + n_rows * k_len / 4;
  auto* offsets = reinterpret_cast<int32_t*>(scales + n_rows * n_groups);
  for (size_t r = 0; r < n_rows; ++r) {
    for (size_t g = 0; g < n_groups; ++g) {
      const size_t at = g * kKvGroup;
      const size_t n = k_len - at < kKvGroup ? k_len - at : kKvGroup;
      int8_t group[kKvGroup] = {};
      const auto encode = n == kKvGroup ? encode_query_group<kKvGroup> : encode_query_group<16>;
      scales[g * n_rows + r] = encode(rows[r] + at, group) * factor;
      int32_t sum = 0;
      for (size_t i = 0; i < kKvGroup; ++i) sum += group[i];
      spread_words(group, n / 4, codes + (at / 4 * n_rows + r) * 4, n_rows * 4);
      offsets[g * n_rows + r] = -Keys::kBias * sum;
    }
  }
}

// scores[r][p] = product of key p and query r, at least for the positions p in [begin, end): an
// exact sum of codes, times both scales. The keys to prefetch begin at `wanted`.
template <size_t R>
inline void score_codes16(const AttentionArgs& args, const std::byte* k_block, uintptr_t wanted,
                          const float* q, size_t begin, size_t end, float* scores) noexcept {
  constexpr size_t kStrips = kStripsFor<R>;
  constexpr size_t kStep = kStrips * Isa::kLanes;
  const auto* keys = reinterpret_cast<const uint8_t*>(k_block);
  const auto* key_scales =
      reinterpret_cast<const uint16_t*>(k_block + kv_code_bytes(KvType::kInt16, args.k_len));
  const auto* codes = reinterpret_cast<const int8_t*>(q);
  const float* scales = q + R * args.k_len / 2;
  prefetch(wanted + kv_code_bytes(KvType::kInt16, args.k_len), kBlockPositions * 2);
  for (size_t at = begin / kStep * kStep; at < end; at += kStep) {
    Isa::Ints sum[R][kStrips];
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s) sum[r][s] = Isa::ints(0);
    }
    for (size_t pair = 0; pair < args.k_len / 2; ++pair) {
      const size_t offset = (pair * kBlockPositions + at) * 4;
      prefetch(wanted + offset, 4 * kStep);
      Isa::Bytes key[kStrips];
      for (size_t s = 0; s < kStrips; ++s)
        key[s] = Isa::load_bytes(keys + offset + s * Isa::kLanes * 4);
      for (size_t r = 0; r < R; ++r) {
        const Isa::Bytes query = Isa::broadcast4(codes + (pair * R + r) * 4);
        for (size_t s = 0; s < kStrips; ++s) sum[r][s] = Isa::dot2(sum[r][s], key[s], query);
      }
    }
    for (size_t s = 0; s < kStrips; ++s) {
      const F scale = Isa::load_bf16(key_scales + at + s * Isa::kLanes);
      for (size_t r = 0; r < R; ++r) {
        Isa::store(scores + r * kBlockPositions + at + s * Isa::kLanes,
                   Isa::to_float(sum[r][s]) * Isa::set1(scales[r]) * scale);
      }
    }
  }
}

// The same for keys in codes of 8 or 4 bits: an exact sum for each 32 of d, times both scales.
template <size_t R, class Keys>
inline void score_codes8(const AttentionArgs& args, const std::byte* k_block, uintptr_t wanted,
                         const float* q, size_t begin, size_t end, float* scores) noexcept {
  constexpr size_t kStrips = kStripsFor<R> / (R > 7 ? 2 : 1);  // integer sums need registers, too
  constexpr size_t kStep = kStrips * Isa::kLanes;
  const size_t n_groups = kv_groups(args.k_len);
  const auto* keys = reinterpret_cast<const uint8_t*>(k_block);
  const auto* key_scales =
      reinterpret_cast<const uint16_t*>(k_block + kv_code_bytes(Keys::kType, args.k_len));
  const auto* codes = reinterpret_cast<const int8_t*>(q);
  const float* scales = q + R * args.k_len / 4;
  const auto* offsets = reinterpret_cast<const int32_t*>(scales + R * n_groups);
  for (size_t at = begin / kStep * kStep; at < end; at += kStep) {
    F acc[R][kStrips];
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s) acc[r][s] = Isa::zero();
    }
    for (size_t g = 0; g < n_groups; ++g) {
      Isa::Ints sum[R][kStrips];
      for (size_t r = 0; r < R; ++r) {
        for (size_t s = 0; s < kStrips; ++s) sum[r][s] = Isa::ints(offsets[g * R + r]);
      }
      const size_t group_end = (g + 1) * kKvGroup < args.k_len ? (g + 1) * kKvGroup : args.k_len;
      for (size_t pair = g * kKvGroup / 8; pair < group_end / 8; ++pair) {
        Isa::Bytes key[kStrips];
        const auto add = [&](size_t quad) {
          for (size_t r = 0; r < R; ++r) {
            const Isa::Bytes query = Isa::broadcast4(codes + (quad * R + r) * 4);
            for (size_t s = 0; s < kStrips; ++s) sum[r][s] = Keys::dot(sum[r][s], key[s], query);
          }
        };
        for (size_t s = 0; s < kStrips; ++s)
          key[s] = Keys::template at<0>(keys, pair, at + s * Isa::kLanes);
        add(2 * pair);
        for (size_t s = 0; s < kStrips; ++s)
          key[s] = Keys::template at<1>(keys, pair, at + s * Isa::kLanes);
        add(2 * pair + 1);
      }
      F scale[kStrips];
      const uint16_t* group_scales = key_scales + g * kBlockPositions + at;
      // The values' loop prefetches codes, because it takes longer. This line prefetches the bytes
      // after them.
      prefetch(wanted + 2 * kv_code_bytes(Keys::kType, args.k_len) + 4 * kBlockPositions * g,
               at == 0 ? 256 : 0);
      for (size_t s = 0; s < kStrips; ++s) scale[s] = Isa::load_f16(group_scales + s * Isa::kLanes);
      for (size_t r = 0; r < R; ++r) {
        const F mine = Isa::set1(scales[g * R + r]);
        for (size_t s = 0; s < kStrips; ++s)
          acc[r][s] = Isa::fma(Isa::to_float(sum[r][s]) * mine, scale[s], acc[r][s]);
      }
    }
    for (size_t r = 0; r < R; ++r) {
      for (size_t s = 0; s < kStrips; ++s)
        Isa::store(scores + r * kBlockPositions + at + s * Isa::kLanes, acc[r][s]);
    }
  }
}

// Packs rows of queries as floats: [k_len][n_rows], no scales.
inline void pack_query_floats(const float* const* rows, size_t n_rows, size_t k_len, float factor,
                              float* packed) noexcept {
  for (size_t r = 0; r < n_rows; ++r)
    for (size_t d = 0; d < k_len; ++d) packed[d * n_rows + r] = rows[r][d] * factor;
}

// The same for keys that are floats. Each sum adds the dimensions in order.
template <size_t R>
inline void score_floats(const AttentionArgs& args, const std::byte* k_block, uintptr_t,
                         const float* q, size_t begin, size_t end, float* scores) noexcept {
  constexpr size_t kStep = kStripsFor<R> * Isa::kLanes;
  const auto* keys = reinterpret_cast<const float*>(k_block);
  for (size_t at = begin / kStep * kStep; at < (end + kStep - 1) / kStep * kStep;
       at += Isa::kLanes) {
    F acc[R];
    for (size_t r = 0; r < R; ++r) acc[r] = Isa::zero();
    for (size_t d = 0; d < args.k_len; ++d) {
      const F key = Isa::load(keys + d * kBlockPositions + at);
      for (size_t r = 0; r < R; ++r) acc[r] = Isa::fma(key, Isa::set1(q[d * R + r]), acc[r]);
    }
    for (size_t r = 0; r < R; ++r) Isa::store(scores + r * kBlockPositions + at, acc[r]);
  }
}

// Values as pairs of adjacent positions for dot2. Also the number of values of a position that
// share a scale, the max of value codes and of weight codes, and how many bytes of the next block
// are prefetched for each pair of values.
struct ValueCodes16 {
  static constexpr size_t kWantedBytes = 4;
  static constexpr float kMaxCode = kGreatestValue;
  static constexpr float kMaxWeight = kGreatestWeight;
  const std::byte* p;
  size_t v_len;
  Isa::Bytes at(size_t pair, size_t dim) const noexcept {
    return Isa::load_bytes(reinterpret_cast<const uint8_t*>(p) + (pair * v_len + dim) * 4);
  }
  size_t group() const noexcept { return v_len; }
  const uint16_t* scales() const noexcept {
    return reinterpret_cast<const uint16_t*>(p + kv_code_bytes(KvType::kInt16, v_len));
  }
  static F load_scales(const uint16_t* scales) noexcept { return Isa::load_bf16(scales); }
};

struct ValueCodes8 {
  static constexpr size_t kWantedBytes = 4;
  static constexpr float kMaxCode = 127.0f;
  static constexpr float kMaxWeight = 32767.0f;
  const std::byte* p;
  size_t v_len;
  Isa::Bytes at(size_t pair, size_t dim) const noexcept {
    return Isa::load_widened(reinterpret_cast<const int8_t*>(p) + (pair * v_len + dim) * 2);
  }
  static size_t group() noexcept { return kKvGroup; }
  const uint16_t* scales() const noexcept {
    return reinterpret_cast<const uint16_t*>(p + kv_code_bytes(KvType::kQ8_0, v_len));
  }
  static F load_scales(const uint16_t* scales) noexcept { return Isa::load_f16(scales); }
};

struct ValueCodes4 {
  static constexpr size_t kWantedBytes = 2;
  static constexpr float kMaxCode = 8.0f;
  static constexpr float kMaxWeight = 32767.0f;
  using Words = int16_t __attribute__((vector_size(sizeof(Isa::Bytes))));
  const std::byte* p;
  size_t v_len;
  Isa::Bytes at(size_t pair, size_t dim) const noexcept {
    const size_t offset = (pair * kv_groups(v_len) + dim / kKvGroup) * kKvGroup + dim % 16 * 2;
    const auto both =
        reinterpret_cast<Words>(Isa::load_widened(reinterpret_cast<const int8_t*>(p) + offset));
    // Shifts to the right repeat the sign bit.
    return reinterpret_cast<Isa::Bytes>(dim % kKvGroup < 16 ? both << 12 >> 12 : both >> 4);
  }
  static size_t group() noexcept { return kKvGroup; }
  const uint16_t* scales() const noexcept {
    return reinterpret_cast<const uint16_t*>(p + kv_code_bytes(KvType::kQ4_0, v_len));
  }
  static F load_scales(const uint16_t* scales) noexcept { return Isa::load_f16(scales); }
};

// The weights of R rows, times the scales of the values, as 16-bit codes. A sum of weight codes
// times value codes must be multiplied by factor[r].
template <size_t R>
struct CodedWeights {
  int16_t codes[R][kBlockPositions];
  float factor[R];
};

// Encodes weights at positions [from, to), which are multiples of kLanes. Weights are 0 where a row
// sees nothing; scales may have any value there.
template <class Values, size_t R>
inline void encode_weights(const float* weights, const uint16_t* scales, size_t from, size_t to,
                           CodedWeights<R>& out) noexcept {
  for (size_t r = 0; r < R; ++r) {
    const float* row = weights + r * kBlockPositions;
    float scaled[kBlockPositions];
    F max = Isa::zero();
    for (size_t at = from; at < to; at += Isa::kLanes) {
      const F weight = Isa::load(row + at);
      const F product =
          Isa::keep_above(weight, Isa::zero(), weight * Values::load_scales(scales + at));
      Isa::store(scaled + at, product);
      max = Isa::greater_magnitude(max, product);
    }
    out.factor[r] = Isa::max_magnitude(max) / Values::kMaxWeight;
    const float inverse = inverse_of(out.factor[r]);
    for (size_t at = from; at < to; at += Isa::kLanes)
      store_scaled16(&out.codes[r][at], scaled + at, inverse);
  }
}

// out[r][i] = out[r][i] * shrink[r] + sum over the positions of pairs [begin, end) of weight *
// value, for S vectors of i from `dim` on. Rows of `out` are `stride` floats apart. The bytes to
// prefetch begin at `wanted`: 32 * kWantedBytes * v_len bytes for all dimensions together.
template <size_t R, size_t S, class Values>
inline void add_strips(const Values& values, size_t dim, uintptr_t wanted,
                       const CodedWeights<R>& weights, size_t begin, size_t end,
                       const float* shrink, float* out, size_t stride) noexcept {
  static_assert(fits_a_sum(kBlockPositions, Values::kMaxCode, Values::kMaxWeight));
  constexpr size_t kWantedBytes = Values::kWantedBytes * S * Isa::kLanes;  // for each pair
  Isa::Ints sum[R][S];
  for (size_t r = 0; r < R; ++r) {
    for (size_t s = 0; s < S; ++s) sum[r][s] = Isa::ints(0);
  }
  for (size_t pair = begin; pair < end; ++pair) {
    prefetch(wanted + kBlockPositions / 2 * Values::kWantedBytes * dim + pair * kWantedBytes,
             kWantedBytes);
    Isa::Bytes value[S];
    for (size_t s = 0; s < S; ++s) value[s] = values.at(pair, dim + s * Isa::kLanes);
    for (size_t r = 0; r < R; ++r) {
      const Isa::Bytes weight =
          Isa::broadcast4(reinterpret_cast<const int8_t*>(&weights.codes[r][2 * pair]));
      for (size_t s = 0; s < S; ++s) sum[r][s] = Isa::dot2(sum[r][s], value[s], weight);
    }
  }
  for (size_t r = 0; r < R; ++r) {
    float* row = out + r * stride + dim;
    for (size_t s = 0; s < S; ++s, row += Isa::kLanes) {
      Isa::store(row, Isa::fma(Isa::to_float(sum[r][s]), Isa::set1(weights.factor[r]),
                               Isa::load(row) * Isa::set1(shrink[r])));
    }
  }
}

// The same for all dimensions in [dim, dim_end), a multiple of 16 of them.
template <size_t R, class Values>
inline void add_values(const Values& values, size_t dim, size_t dim_end, uintptr_t wanted,
                       const CodedWeights<R>& weights, size_t begin, size_t end,
                       const float* shrink, float* out, size_t stride) noexcept {
  constexpr size_t kStrips = kStripsFor<R>;
  for (; dim + kStrips * Isa::kLanes <= dim_end; dim += kStrips * Isa::kLanes) {
    add_strips<R, kStrips>(values, dim, wanted, weights, begin, end, shrink, out, stride);
  }
  for (; dim < dim_end; dim += Isa::kLanes) {
    add_strips<R, 1>(values, dim, wanted, weights, begin, end, shrink, out, stride);
  }
}

// Adds the values of a block at positions [begin, end) to `out`. On both sides, weights continue to
// a multiple of kStep, and are 0 there.
template <size_t R, class Values>
inline void add_block(const Values& values, uintptr_t wanted, const float* weights, size_t begin,
                      size_t end, const float* shrink, float* out, size_t stride) noexcept {
  constexpr size_t kStep = Isa::kLanes < 2 ? 2 : Isa::kLanes;  // whole pairs
  const size_t from = begin / kStep * kStep;
  const size_t to = (end + kStep - 1) / kStep * kStep;
  const size_t v_len = values.v_len;
  const uint16_t* scales = values.scales();
  // After the bytes that add_strips prefetches
  prefetch(wanted + kBlockPositions / 2 * Values::kWantedBytes * v_len, kBlockPositions * 2);
  CodedWeights<R> coded;
  for (size_t dim = 0; dim < v_len; dim += values.group(), scales += kBlockPositions) {
    encode_weights<Values>(weights, scales, from, to, coded);
    const size_t dim_end = dim + values.group() < v_len ? dim + values.group() : v_len;
    add_values<R>(values, dim, dim_end, wanted, coded, begin / 2, (end + 1) / 2, shrink, out,
                  stride);
  }
}

// The same for values that are floats. A weight of 0 adds nothing, whatever the value is.
template <size_t R>
inline void add_floats(const std::byte* v_block, size_t v_len, const float* weights, size_t begin,
                       size_t end, const float* shrink, float* out, size_t stride) noexcept {
  const auto* values = reinterpret_cast<const float*>(v_block);
  for (size_t r = 0; r < R; ++r) {
    const float* row = weights + r * kBlockPositions;
    for (size_t dim = 0; dim < v_len; dim += Isa::kLanes) {
      F sum = Isa::load(out + r * stride + dim) * Isa::set1(shrink[r]);
      for (size_t p = begin; p < end; ++p)
        if (row[p] != 0.0f)
          sum = Isa::fma(Isa::set1(row[p]), Isa::load(values + p * v_len + dim), sum);
      Isa::store(out + r * stride + dim, sum);
    }
  }
}

}  // namespace
}  // namespace billow::kernels
