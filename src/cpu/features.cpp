#include "cpu/features.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

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

constexpr int kOsxsave = 27;  // bit of leaf 1's ECX: XGETBV exists

uint64_t read_saved_states() {
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

CpuidWords read_words() {
  CpuidWords words;
  const Registers leaf0 = cpuid(0, 0);
  const Registers leaf7 = cpuid(7, 0);
  words.vendor[0] = leaf0.ebx;
  words.vendor[1] = leaf0.edx;
  words.vendor[2] = leaf0.ecx;
  words.leaf1_ecx = cpuid(1, 0).ecx;
  words.leaf7_ebx = leaf7.ebx;
  words.leaf7_ecx = leaf7.ecx;
  words.leaf7_edx = leaf7.edx;
  if (leaf7.eax >= 1) words.leaf7_1_eax = cpuid(7, 1).eax;
  if (bit(words.leaf1_ecx, kOsxsave)) words.saved_states = read_saved_states();
  return words;
}

// Since 5.16, Linux gives a process the 8 KiB of tile data only on request.
bool tiles_granted() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;
  return ::syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

Features detect() {
  Features found = decode_features(read_words());
  if (found.amx_tile && !tiles_granted()) {
    found.amx_tile = found.amx_int8 = found.amx_bf16 = found.amx_fp16 = false;
  }
  return found;
}

}  // namespace

Features decode_features(const CpuidWords& words) noexcept {
  Features found;
  found.intel = words.vendor[0] == 0x756E6547 && words.vendor[1] == 0x49656E69 &&
                words.vendor[2] == 0x6C65746E;  // "GenuineIntel"
  if (!bit(words.leaf1_ecx, kOsxsave)) return found;
  // XCR0: bits 1-2 are xmm and ymm, 5-7 are zmm, 17-18 are tiles.
  const bool ymm = (words.saved_states & 0x6) == 0x6;
  const bool zmm = (words.saved_states & 0xE6) == 0xE6;
  const bool tiles = (words.saved_states & 0x60000) == 0x60000;
  const bool fma = bit(words.leaf1_ecx, 12);
  const bool f16c = bit(words.leaf1_ecx, 29);
  found.avx2 = ymm && fma && f16c && bit(words.leaf7_ebx, 5);
  found.avx_vnni = found.avx2 && bit(words.leaf7_1_eax, 4);
  const bool f = bit(words.leaf7_ebx, 16);
  const bool dq = bit(words.leaf7_ebx, 17);
  const bool bw = bit(words.leaf7_ebx, 30);
  const bool vl = bit(words.leaf7_ebx, 31);
  const bool vnni = bit(words.leaf7_ecx, 11);
  found.avx512_vnni = found.avx2 && zmm && f && dq && bw && vl && vnni;
  found.avx512_bf16 = found.avx512_vnni && bit(words.leaf7_1_eax, 5);
  found.avx512_fp16 = found.avx512_vnni && bit(words.leaf7_edx, 23);
  found.amx_tile = tiles && bit(words.leaf7_edx, 24);
  found.amx_int8 = found.amx_tile && bit(words.leaf7_edx, 25);
  found.amx_bf16 = found.amx_tile && bit(words.leaf7_edx, 22);
  found.amx_fp16 = found.amx_tile && bit(words.leaf7_1_eax, 21);
  return found;
}

const Features& features() noexcept {
  static const Features found = detect();
  return found;
}

}  // namespace billow::cpu
