#include "peak_loops.h"

#include <immintrin.h>

#include <cstdint>

#include "cpu/features.h"

namespace billow::bench {
namespace {

// Number of independent chains of additions. It exceeds the longest latency times the widest issue,
// and fits 16 registers. The empty asm statements keep each chain in a register and hide from the
// compiler that its inputs never change.
constexpr size_t kChains = 12;
#define BILLOW_UNROLLED _Pragma("GCC unroll 12")

__attribute__((target("avx512f"))) void fma_f32_avx512(size_t n_rounds) {
  const __m512 x = _mm512_set1_ps(1.0001f);
  const __m512 y = _mm512_set1_ps(0.9997f);
  __m512 sums[kChains];
  BILLOW_UNROLLED
  for (__m512& sum : sums) sum = x;
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m512& sum : sums) {
      sum = _mm512_fmadd_ps(x, y, sum);
      asm volatile("" : "+v"(sum));
    }
  }
}

__attribute__((target("avx2,fma"))) void fma_f32_avx2(size_t n_rounds) {
  const __m256 x = _mm256_set1_ps(1.0001f);
  const __m256 y = _mm256_set1_ps(0.9997f);
  __m256 sums[kChains];
  BILLOW_UNROLLED
  for (__m256& sum : sums) sum = x;
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m256& sum : sums) {
      sum = _mm256_fmadd_ps(x, y, sum);
      asm volatile("" : "+x"(sum));
    }
  }
}

__attribute__((target("avx512f,avx512vnni"))) void dot_i8_vnni(size_t n_rounds) {
  const __m512i x = _mm512_set1_epi8(77);
  const __m512i y = _mm512_set1_epi8(-3);
  __m512i sums[kChains];
  BILLOW_UNROLLED
  for (__m512i& sum : sums) sum = _mm512_set1_epi32(1);
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, x, y);
      asm volatile("" : "+v"(sum));
    }
  }
}

__attribute__((target("avx2"))) void dot_i8_avx2(size_t n_rounds) {
  __m256i x = _mm256_set1_epi8(77);
  const __m256i y = _mm256_set1_epi8(-3);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sums[kChains];
  BILLOW_UNROLLED
  for (__m256i& sum : sums) sum = _mm256_set1_epi32(1);
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(x));  // otherwise the product would be computed only once
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), ones));
      asm volatile("" : "+x"(sum));
    }
  }
}

__attribute__((target("avx512f,avx512vnni"))) void dot_i16_vnni(size_t n_rounds) {
  const __m512i x = _mm512_set1_epi16(77);
  __m512i sums[kChains];
  BILLOW_UNROLLED
  for (__m512i& sum : sums) sum = _mm512_set1_epi32(1);
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m512i& sum : sums) {
      sum = _mm512_dpwssd_epi32(sum, x, x);
      asm volatile("" : "+v"(sum));
    }
  }
}

__attribute__((target("avx2"))) void dot_i16_avx2(size_t n_rounds) {
  __m256i x = _mm256_set1_epi16(77);
  __m256i sums[kChains];
  BILLOW_UNROLLED
  for (__m256i& sum : sums) sum = _mm256_set1_epi32(1);
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m256i& sum : sums) {
      asm volatile("" : "+x"(x));  // otherwise the product would be computed only once
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, x));
      asm volatile("" : "+x"(sum));
    }
  }
}

__attribute__((target("avx512f,avx512bf16"))) void dot_bf16_avx512(size_t n_rounds) {
  const auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi16(0x3f81));  // slightly above 1
  __m512 sums[kChains];
  BILLOW_UNROLLED
  for (__m512& sum : sums) sum = _mm512_set1_ps(1.0f);
  for (size_t i = 0; i < n_rounds; ++i) {
    BILLOW_UNROLLED
    for (__m512& sum : sums) {
      sum = _mm512_dpbf16_ps(sum, x, x);
      asm volatile("" : "+v"(sum));
    }
  }
}

// Four sums of two by two tiles. The speed of float tiles depends on their values.
void dot_bf16_tiles(size_t n_rounds) {
  struct alignas(64) {
    uint8_t palette = 1;
    uint8_t rest[15] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } config;
  alignas(64) uint16_t values[16][32];
  for (size_t i = 0; i < 16 * 32; ++i)
    values[i / 32][i % 32] = static_cast<uint16_t>(0x3f00 + i * 37 % 128);  // 0.5 to 1
  asm volatile("ldtilecfg %0" ::"m"(config));
  asm volatile("tilezero %%tmm0; tilezero %%tmm1; tilezero %%tmm2; tilezero %%tmm3" ::);
  asm volatile(
      "tileloadd (%0,%1,1), %%tmm4; tileloadd (%0,%1,1), %%tmm5;"
      "tileloadd (%0,%1,1), %%tmm6; tileloadd (%0,%1,1), %%tmm7" ::"r"(values),
      "r"(size_t{64})
      : "memory");
  for (size_t i = 0; i < n_rounds; ++i) {
    asm volatile(
        "tdpbf16ps %%tmm6, %%tmm4, %%tmm0; tdpbf16ps %%tmm7, %%tmm4, %%tmm1;"
        "tdpbf16ps %%tmm6, %%tmm5, %%tmm2; tdpbf16ps %%tmm7, %%tmm5, %%tmm3" ::);
  }
  asm volatile("tilerelease" ::);
}

constexpr double macs_of(double lanes) { return lanes * static_cast<double>(kChains); }

const RegisterLoop kLoops[] = {
    {"f32", "AVX-512 FMA", macs_of(16), [] { return __builtin_cpu_supports("avx512f") != 0; },
     fma_f32_avx512},
    {"f32", "AVX2 FMA", macs_of(8), [] { return __builtin_cpu_supports("fma") != 0; },
     fma_f32_avx2},
    {"i8", "AVX-512 VNNI", macs_of(64), [] { return __builtin_cpu_supports("avx512vnni") != 0; },
     dot_i8_vnni},
    {"i8", "AVX2 maddubs", macs_of(32), [] { return __builtin_cpu_supports("avx2") != 0; },
     dot_i8_avx2},
    {"i16", "AVX-512 VNNI", macs_of(32), [] { return __builtin_cpu_supports("avx512vnni") != 0; },
     dot_i16_vnni},
    {"i16", "AVX2 madd", macs_of(16), [] { return __builtin_cpu_supports("avx2") != 0; },
     dot_i16_avx2},
    {"bf16", "AMX BF16 tiles", 4.0 * 16 * 16 * 32, [] { return cpu::features().amx_bf16; },
     dot_bf16_tiles},
    {"bf16", "AVX-512 BF16 dot", macs_of(32),
     [] { return __builtin_cpu_supports("avx512bf16") != 0; }, dot_bf16_avx512},
};

// Distance that gives memory enough time. A prefetch beyond the end is harmless.
constexpr size_t kAhead = 4096;
constexpr size_t kLine = 64;
constexpr size_t kStep = 4 * kLine;

__attribute__((target("avx2"))) void read_avx2(const std::byte* at, const std::byte* end) {
  for (; at < end; at += kStep) {
    for (size_t i = 0; i < kStep; i += kLine) __builtin_prefetch(at + kAhead + i);
    for (size_t i = 0; i < kStep; i += sizeof(__m256i)) {
      __m256i value = _mm256_load_si256(reinterpret_cast<const __m256i*>(at + i));
      asm volatile("" : "+x"(value));
    }
  }
}

void read_sse2(const std::byte* at, const std::byte* end) {
  for (; at < end; at += kStep) {
    for (size_t i = 0; i < kStep; i += kLine) __builtin_prefetch(at + kAhead + i);
    for (size_t i = 0; i < kStep; i += sizeof(__m128i)) {
      __m128i value = _mm_load_si128(reinterpret_cast<const __m128i*>(at + i));
      asm volatile("" : "+x"(value));
    }
  }
}

}  // namespace

std::span<const RegisterLoop> register_loops() { return kLoops; }

void read_memory(const std::byte* data, size_t n_bytes) {
  const auto read = __builtin_cpu_supports("avx2") != 0 ? read_avx2 : read_sse2;
  read(data, data + n_bytes);
}

}  // namespace billow::bench
