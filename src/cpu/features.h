// What instructions this processor has and the operating system lets us use, read by CPUID and
// XGETBV: compilers and /proc/cpuinfo do not know all of them. Pure; any thread.
#pragma once

namespace billow::cpu {

struct Features {
  bool avx2 = false;         // AVX2, FMA and F16C, with the ymm state enabled
  bool avx512_vnni = false;  // AVX-512 F, BW, DQ, VL and VNNI, with the zmm state enabled
};

// Of the processor we run on; read once.
const Features& features() noexcept;

}  // namespace billow::cpu
