// The vector vocabulary (explained in vector_scalar.inl.h) with AVX-512 F, BW, DQ, VL and VNNI: 16
// floats, 64 codes.
#pragma once

#define BILLOW_VECTORS

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace billow::kernels {
namespace {

struct Isa {
  using F = __m512;
  static constexpr size_t kLanes = 16;
  static __mmask16 first_lanes(size_t n) noexcept { return static_cast<__mmask16>((1u << n) - 1u); }
  static F zero() noexcept { return _mm512_setzero_ps(); }
  static F set1(float x) noexcept { return _mm512_set1_ps(x); }
  static F load(const float* p) noexcept { return _mm512_loadu_ps(p); }
  static void store(float* p, F x) noexcept { _mm512_storeu_ps(p, x); }
  static F load_first(const float* p, size_t n) noexcept {
    return _mm512_maskz_loadu_ps(first_lanes(n), p);
  }
  static void store_first(float* p, F x, size_t n) noexcept {
    _mm512_mask_storeu_ps(p, first_lanes(n), x);
  }
  static F load_f16(const uint16_t* p) noexcept {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void store_f16(uint16_t* p, F x) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
  }
  static __m512i load_widened_bytes(const uint8_t* p) noexcept {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static F load_signed(const int8_t* p) noexcept {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static F load_unsigned(const uint8_t* p) noexcept {
    return _mm512_cvtepi32_ps(load_widened_bytes(p));
  }
  static F load_low_nibbles(const uint8_t* p) noexcept {
    return _mm512_cvtepi32_ps(_mm512_and_si512(load_widened_bytes(p), _mm512_set1_epi32(15)));
  }
  static F load_high_nibbles(const uint8_t* p) noexcept {
    return _mm512_cvtepi32_ps(_mm512_srli_epi32(load_widened_bytes(p), 4));
  }
  // p[0], p[0], p[1], p[1] and so on, of kLanes / 2 floats.
  static F load_twice(const float* p) noexcept {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
    return _mm512_permutexvar_ps(lanes, _mm512_castps256_ps512(_mm256_loadu_ps(p)));
  }
  static F swap_pairs(F x) noexcept { return _mm512_permute_ps(x, 0xB1); }
  static F negate_even(F x) noexcept {
    return _mm512_castsi512_ps(
        _mm512_xor_si512(_mm512_castps_si512(x), _mm512_set1_epi64(0x80000000)));
  }
  static F fma(F a, F b, F c) noexcept { return _mm512_fmadd_ps(a, b, c); }
  static F max(F a, F b) noexcept { return _mm512_max_ps(a, b); }
  static F min(F a, F b) noexcept { return _mm512_min_ps(a, b); }
  static float sum(F x) noexcept { return _mm512_reduce_add_ps(x); }
  static float largest(F x) noexcept { return _mm512_reduce_max_ps(x); }
  static F greater_magnitude(F a, F x) noexcept {
    const __m512i magnitude =
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7FFFFFFF));
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), magnitude));
  }
  static float max_magnitude(F x) noexcept {
    return __builtin_bit_cast(float, _mm512_reduce_max_epi32(_mm512_castps_si512(x)));
  }
  static F keep_above(F x, F limit, F value) noexcept {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ), value);
  }
  static F round(F x) noexcept {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static F power_of_two(F n) noexcept {
    const __m512i exponent = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(exponent, 23));
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

  using Bytes = uint8_t __attribute__((vector_size(64)));
  using Ints = __m512i;
  static Ints ints(int32_t x) noexcept { return _mm512_set1_epi32(x); }
  static Ints shifted(const int32_t* p, Ints n) noexcept {
    return _mm512_sllv_epi32(_mm512_set1_epi32(*p), n);
  }
  static F to_float(Ints x) noexcept { return _mm512_cvtepi32_ps(x); }
  static Ints signed_byte(Bytes v, unsigned i) noexcept {
    return _mm512_srai_epi32(_mm512_slli_epi32(reinterpret_cast<__m512i>(v), 24 - 8 * i), 24);
  }
  static Bytes load_bytes(const uint8_t* p) noexcept {
    return reinterpret_cast<Bytes>(_mm512_loadu_si512(p));
  }
  static void store_bytes(uint8_t* p, Bytes v) noexcept {
    _mm512_storeu_si512(p, reinterpret_cast<__m512i>(v));
  }
  static F low_f16(Bytes v) noexcept {
    return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(reinterpret_cast<__m512i>(v)));
  }
  static F high_f16(Bytes v) noexcept {
    return _mm512_cvtph_ps(
        _mm512_cvtepi32_epi16(_mm512_srli_epi32(reinterpret_cast<__m512i>(v), 16)));
  }
  static F low_bf16(Bytes v) noexcept {
    return _mm512_castsi512_ps(_mm512_slli_epi32(reinterpret_cast<__m512i>(v), 16));
  }
  static F high_bf16(Bytes v) noexcept {
    return _mm512_castsi512_ps(_mm512_and_si512(reinterpret_cast<__m512i>(v),
                                                _mm512_set1_epi32(static_cast<int>(0xFFFF0000))));
  }
  static void store_codes(int8_t* p, F x) noexcept {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(x)));
  }
  static void sum_codes(const int8_t* codes, int32_t* sums) noexcept {
    // Loads the pieces of the latest stores: a load across two stores would wait for both.
    const auto* halves = reinterpret_cast<const __m128i*>(codes);
    const __m256i both = _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(halves)),
                                                 _mm_loadu_si128(halves + 1), 1);
    __m256i quads = _mm256_dpbusd_epi32(_mm256_setzero_si256(), _mm256_set1_epi8(1), both);
    quads = _mm256_add_epi32(quads, _mm256_shuffle_epi32(quads, 0x4E));
    quads = _mm256_add_epi32(quads, _mm256_shuffle_epi32(quads, 0xB1));
    sums[0] = _mm_cvtsi128_si32(_mm256_castsi256_si128(quads));
    sums[1] = _mm_cvtsi128_si32(_mm256_extracti128_si256(quads, 1));
  }
  static void store_codes16(int16_t* p, F x) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(x)));
  }
  static Bytes broadcast4(const int8_t* p) noexcept {
    int32_t quad;
    __builtin_memcpy(&quad, p, 4);
    return reinterpret_cast<Bytes>(_mm512_set1_epi32(quad));
  }
  template <uint8_t kValue>
  static Bytes bit_as(Bytes v, const uint8_t* bits, size_t) noexcept {
    uint64_t mask;
    __builtin_memcpy(&mask, bits, 8);
    const auto plain = reinterpret_cast<__m512i>(v);
    return reinterpret_cast<Bytes>(
        _mm512_mask_add_epi8(plain, _cvtu64_mask64(mask), plain, _mm512_set1_epi8(kValue)));
  }
  static Bytes lookup_bytes(const int8_t* table, Bytes codes) noexcept {
    const __m512i entries =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
    return reinterpret_cast<Bytes>(_mm512_shuffle_epi8(entries, reinterpret_cast<__m512i>(codes)));
  }
  static constexpr int kSignedBias = 128;
#if defined(__GNUC__) && !defined(__clang__)
  // With intrinsics, GCC 12 copies the sum around each of these, and runs out of registers.
  static Ints dot4(Ints sum, Bytes w, Bytes x) noexcept {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
  static Ints dot2(Ints sum, Bytes w, Bytes x) noexcept {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(x));
    return sum;
  }
#else
  static Ints dot4(Ints sum, Bytes w, Bytes x) noexcept {
    return _mm512_dpbusd_epi32(sum, reinterpret_cast<__m512i>(w), reinterpret_cast<__m512i>(x));
  }
  static Ints dot2(Ints sum, Bytes w, Bytes x) noexcept {
    return _mm512_dpwssd_epi32(sum, reinterpret_cast<__m512i>(w), reinterpret_cast<__m512i>(x));
  }
#endif
  static Bytes prepare_signed(Bytes w) noexcept { return w ^ 0x80; }
  static Ints dot4_signed(Ints sum, Bytes w, Bytes x) noexcept { return dot4(sum, w, x); }
  static constexpr bool kPairs = false;
  static constexpr size_t kFewVectors[2] = {0, 0};
  static constexpr size_t kGroupRows = 7;
  static constexpr size_t kMaxPasses = 9;
  static constexpr size_t kFloatGroupRows = 12;
  static constexpr size_t kPanelVectors = 2;
  template <size_t H>
  static F exchange(F x) noexcept {
    if constexpr (H == 8) return _mm512_shuffle_f32x4(x, x, 0x4E);
    if constexpr (H == 4) return _mm512_shuffle_f32x4(x, x, 0xB1);
    return _mm512_permute_ps(x, H == 2 ? 0x4E : 0xB1);
  }
  static constexpr size_t kAttentionRows = 14;
  static Bytes load_widened(const int8_t* p) noexcept {
    return reinterpret_cast<Bytes>(
        _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
  }
  static F load_bf16(const uint16_t* p) noexcept {
    const __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(words), 16));
  }
  static F keep_first(F x, size_t n, F rest) noexcept {
    return _mm512_mask_mov_ps(rest, first_lanes(n), x);
  }
  static bool any_above(F x, F limit) noexcept {
    return _mm512_cmp_ps_mask(x, limit, _CMP_GT_OQ) != 0;
  }
  static float first(F x) noexcept { return _mm512_cvtss_f32(x); }
  // Loads rows 0, 4, 8 and 12 from `in` on. Loads pieces of 16 bytes, because the codes were
  // written that way (quant/unpack.h).
  static __m512i load_every_fourth(const uint8_t* in, size_t stride) noexcept {
    const auto piece = [&](size_t row) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + row * stride));
    };
    const __m256i low = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(0)), piece(4), 1);
    const __m256i high = _mm256_inserti128_si256(_mm256_castsi128_si256(piece(8)), piece(12), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
  }
  static void transpose_words(const uint8_t* in, size_t stride, uint8_t* out) noexcept {
    for (size_t j = 0; j < 4; ++j) {
      __m512i v[4];
      for (size_t i = 0; i < 4; ++i) v[i] = load_every_fourth(in + i * stride + 16 * j, stride);
      const __m512i a = _mm512_unpacklo_epi32(v[0], v[1]);
      const __m512i b = _mm512_unpackhi_epi32(v[0], v[1]);
      const __m512i c = _mm512_unpacklo_epi32(v[2], v[3]);
      const __m512i d = _mm512_unpackhi_epi32(v[2], v[3]);
      uint8_t* to = out + 256 * j;
      _mm512_storeu_si512(to, _mm512_unpacklo_epi64(a, c));
      _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi64(a, c));
      _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi64(b, d));
      _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi64(b, d));
    }
  }
  template <int kBit>
  static void collect_bit(const uint8_t* in, uint8_t* out) noexcept {
    const uint64_t bits =
        _cvtmask64_u64(_mm512_test_epi8_mask(_mm512_loadu_si512(in), _mm512_set1_epi8(1 << kBit)));
    __builtin_memcpy(out, &bits, sizeof bits);
  }
};

}  // namespace
}  // namespace billow::kernels
