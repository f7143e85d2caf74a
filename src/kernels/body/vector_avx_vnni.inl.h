// AVX2's vocabulary (vector_avx2.inl.h) with AVX-VNNI, which sums the products of 4 codes in one
// instruction. Without AVX-VNNI it uses AVX-512 VNNI's encoding of the same instruction, so that
// processors that only have AVX-512 VNNI can test this vocabulary.
#pragma once

#include <immintrin.h>

#include "kernels/body/vector_avx2.inl.h"

namespace billow::kernels {
namespace {

struct AvxVnni : Avx2 {
  static constexpr int kSignedBias = 128;
  static Ints dot4(Ints sum, Bytes w, Bytes x) noexcept {
    const auto codes = reinterpret_cast<__m256i>(w);
#ifdef __AVXVNNI__
    return _mm256_dpbusd_avx_epi32(sum, codes, reinterpret_cast<__m256i>(x));
#else
    return _mm256_dpbusd_epi32(sum, codes, reinterpret_cast<__m256i>(x));
#endif
  }
  static Bytes prepare_signed(Bytes w) noexcept { return w ^ 0x80; }
  static Ints dot4_signed(Ints sum, Bytes w, Bytes x) noexcept { return dot4(sum, w, x); }
  static constexpr bool kPairs = false;
};

}  // namespace
}  // namespace billow::kernels
