// The instructions that this processor has and the operating system allows. Reads CPUID and
// XGETBV, because compilers and /proc/cpuinfo do not know all of them. Any thread.
#pragma once

#include <cstdint>

namespace billow::cpu {

struct Features {
  bool avx2 = false;         // AVX2, FMA and F16C, with the ymm state enabled
  bool avx_vnni = false;     // AVX-VNNI in addition to avx2: vpdpbusd of ymm
  bool avx512_vnni = false;  // AVX-512 F, BW, DQ, VL and VNNI, with the zmm state enabled
  bool avx512_bf16 = false;  // vdpbf16ps in addition to avx512_vnni
  bool avx512_fp16 = false;  // arithmetic in half precision in addition to avx512_vnni
  bool amx_tile = false;     // tiles, which the system has granted to this process
  bool amx_int8 = false;     // products of tiles, if there are tiles
  bool amx_bf16 = false;
  bool amx_fp16 = false;
  bool intel = false;  // an Intel processor: its vdpbf16ps is slower than fp32 multiply-add
};

// The words from CPUID and XGETBV. Leaves that the processor lacks are 0.
struct CpuidWords {
  uint32_t vendor[3] = {};  // leaf 0: EBX, EDX, ECX
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_edx = 0;
  uint32_t leaf7_1_eax = 0;   // subleaf 1
  uint64_t saved_states = 0;  // XCR0
};

// Returns the features for these words. Assumes for amx_* that the system has granted tiles. Pure.
Features decode_features(const CpuidWords& words) noexcept;

// Returns the features of this machine's processor. The first call reads them. If there are tiles,
// this call asks the system to grant them to this process and all its threads.
const Features& features() noexcept;

}  // namespace billow::cpu
