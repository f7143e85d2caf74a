#include "cpu/features.h"

#include <cpuid.h>

#include <cstdint>

namespace billow::cpu {
namespace {

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

bool bit(uint32_t word, int index) { return (word >> index) & 1u; }

// The register states that the system saves (XCR0): bits 1-2 are xmm and ymm, 5-7 are zmm.
uint64_t saved_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

Features detect() {
  Features found;
  const Registers leaf1 = cpuid(1, 0);
  const Registers leaf7 = cpuid(7, 0);
  constexpr int kOsxsave = 27;
  if (!bit(leaf1.ecx, kOsxsave)) return found;
  const uint64_t states = saved_states();
  const bool ymm = (states & 0x6) == 0x6;
  const bool zmm = (states & 0xE6) == 0xE6;
  const bool fma = bit(leaf1.ecx, 12);
  const bool f16c = bit(leaf1.ecx, 29);
  found.avx2 = ymm && fma && f16c && bit(leaf7.ebx, 5);
  const bool f = bit(leaf7.ebx, 16);
  const bool dq = bit(leaf7.ebx, 17);
  const bool bw = bit(leaf7.ebx, 30);
  const bool vl = bit(leaf7.ebx, 31);
  const bool vnni = bit(leaf7.ecx, 11);
  found.avx512_vnni = found.avx2 && zmm && f && dq && bw && vl && vnni;
  return found;
}

}  // namespace

const Features& features() noexcept {
  static const Features found = detect();
  return found;
}

}  // namespace billow::cpu
