// The rounding vocabulary (explained in bf16_plain.inl.h) with AVX-512 BF16.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/body/vector_avx512.inl.h"
#include "kernels/body/vocabulary.inl.h"

namespace billow::kernels {
namespace {

struct Bf16 {
  static void store(uint16_t* to, F x) noexcept {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
  }
  static Isa::Bytes pairs(F even, F odd) noexcept {
    const __m512i order =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return reinterpret_cast<Isa::Bytes>(
        _mm512_permutexvar_epi16(order, reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(odd, even))));
  }
};

}  // namespace
}  // namespace billow::kernels
