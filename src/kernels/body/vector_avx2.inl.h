// The vector vocabulary (explained in vector_scalar.inl.h) with AVX2, FMA and F16C: 8 floats, 32
// codes.
#pragma once

#define BILLOW_VECTORS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace billow::kernels {
namespace {

struct Avx2 {
  using F = __m256;
  static constexpr size_t kLanes = 8;
  static __m256i first_lanes(size_t n) noexcept {
    const __m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lanes);
  }
  static F zero() noexcept { return _mm256_setzero_ps(); }
  static F set1(float x) noexcept { return _mm256_set1_ps(x); }
  static F load(const float* p) noexcept { return _mm256_loadu_ps(p); }
  static void store(float* p, F x) noexcept { _mm256_storeu_ps(p, x); }
  static F load_first(const float* p, size_t n) noexcept {
    return _mm256_maskload_ps(p, first_lanes(n));
  }
  static void store_first(float* p, F x, size_t n) noexcept {
    _mm256_maskstore_ps(p, first_lanes(n), x);
  }
  static F load_f16(const uint16_t* p) noexcept {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void store_f16(uint16_t* p, F x) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static __m256i load_widened_bytes(const uint8_t* p) noexcept {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_signed(const int8_t* p) noexcept {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static F load_unsigned(const uint8_t* p) noexcept {
    return _mm256_cvtepi32_ps(load_widened_bytes(p));
  }
  static F load_low_nibbles(const uint8_t* p) noexcept {
    return _mm256_cvtepi32_ps(_mm256_and_si256(load_widened_bytes(p), _mm256_set1_epi32(15)));
  }
  static F load_high_nibbles(const uint8_t* p) noexcept {
    return _mm256_cvtepi32_ps(_mm256_srli_epi32(load_widened_bytes(p), 4));
  }
  // p[0], p[0], p[1], p[1] and so on, of kLanes / 2 floats.
  static F load_twice(const float* p) noexcept {
    const __m256i lanes = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
    return _mm256_permutevar8x32_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), lanes);
  }
  static F swap_pairs(F x) noexcept { return _mm256_permute_ps(x, 0xB1); }
  static F negate_even(F x) noexcept {
    return _mm256_xor_ps(x, _mm256_castsi256_ps(_mm256_set1_epi64x(0x80000000)));
  }
  static F fma(F a, F b, F c) noexcept { return _mm256_fmadd_ps(a, b, c); }
  static F max(F a, F b) noexcept { return _mm256_max_ps(a, b); }
  static F min(F a, F b) noexcept { return _mm256_min_ps(a, b); }
  static float sum(F x) noexcept {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
  }
  static float largest(F x) noexcept {
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
  }
  static F greater_magnitude(F a, F x) noexcept {
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7FFFFFFF));
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), magnitude));
  }
  static float max_magnitude(F x) noexcept {
    const __m256i bits = _mm256_castps_si256(x);
    __m128i max = _mm_max_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0x4E));
    max = _mm_max_epi32(max, _mm_shuffle_epi32(max, 0xB1));
    return _mm_cvtss_f32(_mm_castsi128_ps(max));
  }
  static F keep_above(F x, F limit, F value) noexcept {
    return _mm256_and_ps(value, _mm256_cmp_ps(x, limit, _CMP_GT_OQ));
  }
  static F round(F x) noexcept {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F power_of_two(F n) noexcept {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }

  static float f16_to_f32(uint16_t h) noexcept { return _cvtsh_ss(h); }
  static void lookup16(const int8_t* table, const uint8_t* nibbles, int8_t* out,
                       size_t n) noexcept {
    const __m128i row = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
    for (size_t i = 0; i < n; i += 16) {
      const __m128i index = _mm_loadu_si128(reinterpret_cast<const __m128i*>(nibbles + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_shuffle_epi8(row, index));
    }
  }

  using Bytes = uint8_t __attribute__((vector_size(32)));
  using Ints = __m256i;
  static Ints ints(int32_t x) noexcept { return _mm256_set1_epi32(x); }
  static Ints shifted(const int32_t* p, Ints n) noexcept {
    return _mm256_sllv_epi32(_mm256_set1_epi32(*p), n);
  }
  static F to_float(Ints x) noexcept { return _mm256_cvtepi32_ps(x); }
  static Ints signed_byte(Bytes v, unsigned i) noexcept {
    const auto shift = static_cast<int>(24 - 8 * i);
    return _mm256_srai_epi32(_mm256_slli_epi32(reinterpret_cast<__m256i>(v), shift), 24);
  }
  static Bytes load_bytes(const uint8_t* p) noexcept {
    return reinterpret_cast<Bytes>(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store_bytes(uint8_t* p, Bytes v) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), reinterpret_cast<__m256i>(v));
  }
  // The words at even places of 8 pairs.
  static F low_f16(Bytes v) noexcept {
    const __m256i low = _mm256_and_si256(reinterpret_cast<__m256i>(v), _mm256_set1_epi32(0xFFFF));
    const __m256i words = _mm256_packus_epi32(low, low);
    return _mm256_cvtph_ps(_mm256_castsi256_si128(_mm256_permute4x64_epi64(words, 0x08)));
  }
  static F high_f16(Bytes v) noexcept {
    return low_f16(reinterpret_cast<Bytes>(_mm256_srli_epi32(reinterpret_cast<__m256i>(v), 16)));
  }
  static F low_bf16(Bytes v) noexcept {
    return _mm256_castsi256_ps(_mm256_slli_epi32(reinterpret_cast<__m256i>(v), 16));
  }
  static F high_bf16(Bytes v) noexcept {
    return _mm256_castsi256_ps(_mm256_and_si256(reinterpret_cast<__m256i>(v),
                                                _mm256_set1_epi32(static_cast<int>(0xFFFF0000))));
  }
  static void store_codes(int8_t* p, F x) noexcept {
    const __m256i ints = _mm256_cvtps_epi32(x);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
  static void sum_codes(const int8_t* codes, int32_t* sums) noexcept {
    const __m256i pairs = _mm256_maddubs_epi16(
        _mm256_set1_epi8(1), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
    __m256i quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
    quads = _mm256_add_epi32(quads, _mm256_shuffle_epi32(quads, 0x4E));
    quads = _mm256_add_epi32(quads, _mm256_shuffle_epi32(quads, 0xB1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(quads));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(quads, 1));
  }
  static void store_codes16(int16_t* p, F x) noexcept {
    const __m256i ints = _mm256_cvtps_epi32(x);
    _mm_storeu_si128(
        reinterpret_cast<__m128i*>(p),
        _mm_packs_epi32(_mm256_castsi256_si128(ints), _mm256_extracti128_si256(ints, 1)));
  }
  static Bytes broadcast4(const int8_t* p) noexcept {
    int32_t quad;
    __builtin_memcpy(&quad, p, 4);
    return reinterpret_cast<Bytes>(_mm256_set1_epi32(quad));
  }
  template <uint8_t kValue>
  static Bytes bit_as(Bytes v, const uint8_t* bits, size_t lane) noexcept {
    int32_t word;
    __builtin_memcpy(&word, bits + lane / 2, 4);
    const __m256i spread = _mm256_shuffle_epi8(
        _mm256_set1_epi32(word), _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                                  2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3));
    const __m256i mask = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201ull));
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, mask), mask);
    return v | reinterpret_cast<Bytes>(_mm256_and_si256(set, _mm256_set1_epi8(kValue)));
  }
  static Bytes lookup_bytes(const int8_t* table, Bytes codes) noexcept {
    const __m256i entries =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return reinterpret_cast<Bytes>(_mm256_shuffle_epi8(entries, reinterpret_cast<__m256i>(codes)));
  }
  static constexpr int kSignedBias = 0;
  static Ints dot4(Ints sum, Bytes w, Bytes x) noexcept {
    const __m256i pairs =
        _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w), reinterpret_cast<__m256i>(x));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static Ints dot2(Ints sum, Bytes w, Bytes x) noexcept {
    return _mm256_add_epi32(
        sum, _mm256_madd_epi16(reinterpret_cast<__m256i>(w), reinterpret_cast<__m256i>(x)));
  }
  static Bytes prepare_signed(Bytes w) noexcept { return w; }
  // The unsigned by signed product needs |w| and x with the sign of w. |w| <= 128 and |x| <= 127
  // keep the pair sums within 16 bits.
  static Ints dot4_signed(Ints sum, Bytes w, Bytes x) noexcept {
    const auto signed_w = reinterpret_cast<__m256i>(w);
    const __m256i pairs = _mm256_maddubs_epi16(
        _mm256_abs_epi8(signed_w), _mm256_sign_epi8(reinterpret_cast<__m256i>(x), signed_w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
  }
  static constexpr bool kPairs = true;
  static Bytes pairs(Bytes w, Bytes x) noexcept {
    return reinterpret_cast<Bytes>(
        _mm256_maddubs_epi16(reinterpret_cast<__m256i>(w), reinterpret_cast<__m256i>(x)));
  }
  static Bytes add_pairs(Bytes a, Bytes b) noexcept {
    return reinterpret_cast<Bytes>(
        _mm256_add_epi16(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
  }
  static Ints add_widened(Ints sum, Bytes pairs) noexcept {
    return _mm256_add_epi32(
        sum, _mm256_madd_epi16(reinterpret_cast<__m256i>(pairs), _mm256_set1_epi16(1)));
  }
  static constexpr size_t kFewVectors[2] = {0, 2};
  static constexpr size_t kGroupRows = 4;
  static constexpr size_t kMaxPasses = 0;
  static constexpr size_t kFloatGroupRows = 5;
  static constexpr size_t kPanelVectors = 2;
  template <size_t H>
  static F exchange(F x) noexcept {
    if constexpr (H == 4) return _mm256_permute2f128_ps(x, x, 1);
    return _mm256_permute_ps(x, H == 2 ? 0x4E : 0xB1);
  }
  static constexpr size_t kAttentionRows = 6;
  static Bytes load_widened(const int8_t* p) noexcept {
    return reinterpret_cast<Bytes>(
        _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static F load_bf16(const uint16_t* p) noexcept {
    const __m128i words = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(words), 16));
  }
  static F keep_first(F x, size_t n, F rest) noexcept {
    return _mm256_blendv_ps(rest, x, _mm256_castsi256_ps(first_lanes(n)));
  }
  static bool any_above(F x, F limit) noexcept {
    return _mm256_movemask_ps(_mm256_cmp_ps(x, limit, _CMP_GT_OQ)) != 0;
  }
  static float first(F x) noexcept { return _mm256_cvtss_f32(x); }
  // Loads pieces of 16 bytes, because the codes were written that way (quant/unpack.h).
  static __m256i load_pair(const uint8_t* low, const uint8_t* high) noexcept {
    const __m256i first =
        _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(low)));
    return _mm256_inserti128_si256(first, _mm_loadu_si128(reinterpret_cast<const __m128i*>(high)),
                                   1);
  }
  static void transpose_words(const uint8_t* in, size_t stride, uint8_t* out) noexcept {
    for (size_t half = 0; half < 2; ++half) {
      const uint8_t* rows = in + 8 * half * stride;
      for (size_t j = 0; j < 4; ++j) {
        __m256i v[4];
        for (size_t i = 0; i < 4; ++i) {
          v[i] = load_pair(rows + i * stride + 16 * j, rows + (i + 4) * stride + 16 * j);
        }
        const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]);
        const __m256i b = _mm256_unpackhi_epi32(v[0], v[1]);
        const __m256i c = _mm256_unpacklo_epi32(v[2], v[3]);
        const __m256i d = _mm256_unpackhi_epi32(v[2], v[3]);
        auto* to = reinterpret_cast<__m256i*>(out + 256 * j + 32 * half);
        _mm256_storeu_si256(to, _mm256_unpacklo_epi64(a, c));
        _mm256_storeu_si256(to + 2, _mm256_unpackhi_epi64(a, c));
        _mm256_storeu_si256(to + 4, _mm256_unpacklo_epi64(b, d));
        _mm256_storeu_si256(to + 6, _mm256_unpackhi_epi64(b, d));
      }
    }
  }
  template <int kBit>
  static void collect_bit(const uint8_t* in, uint8_t* out) noexcept {
    for (size_t half = 0; half < 2; ++half) {
      const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + 32 * half));
      const int bits = _mm256_movemask_epi8(_mm256_slli_epi16(v, 7 - kBit));
      __builtin_memcpy(out + 4 * half, &bits, 4);
    }
  }
};

}  // namespace
}  // namespace billow::kernels
