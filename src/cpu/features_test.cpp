#include "cpu/features.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace billow::cpu {
namespace {

// Returns the CPUID words of an Intel processor with all features. The system saves all states.
CpuidWords everything() {
  CpuidWords words = {.vendor = {0x756E6547, 0x49656E69, 0x6C65746E}};
  words.leaf1_ecx = words.leaf7_ebx = words.leaf7_ecx = words.leaf7_edx = words.leaf7_1_eax = ~0u;
  words.saved_states = 0x600E7;
  return words;
}

TEST(Features, AreCompleteOnACompleteProcessorAndSystem) {
  const Features f = decode_features(everything());
  EXPECT_TRUE(f.avx2 && f.avx_vnni && f.avx512_vnni && f.avx512_bf16 && f.avx512_fp16);
  EXPECT_TRUE(f.amx_tile && f.amx_int8 && f.amx_bf16 && f.amx_fp16);
  EXPECT_TRUE(f.intel);
  CpuidWords amd = everything();
  amd.vendor[0] = 0x68747541;
  EXPECT_FALSE(decode_features(amd).intel);
}

TEST(Features, NeedTheSystemToSaveTheirRegisters) {
  CpuidWords words = everything();
  words.saved_states = 0xE7;
  Features f = decode_features(words);
  EXPECT_TRUE(f.avx512_fp16);
  EXPECT_FALSE(f.amx_tile || f.amx_int8 || f.amx_bf16 || f.amx_fp16);
  words.saved_states = 0x7;
  f = decode_features(words);
  EXPECT_TRUE(f.avx2 && f.avx_vnni);
  EXPECT_FALSE(f.avx512_vnni || f.avx512_bf16 || f.avx512_fp16);
  words.saved_states = 0x1;
  EXPECT_FALSE(decode_features(words).avx2);
  words = everything();
  words.leaf1_ecx = 0;
  f = decode_features(words);
  EXPECT_FALSE(f.avx2 || f.avx_vnni || f.avx512_vnni || f.amx_tile);
}

// Tests each bit alone, numbered as in the manuals.
TEST(Features, AreReadFromTheRightBits) {
  struct Case {
    uint32_t CpuidWords::* word;
    int bit;
    bool Features::* feature;
  };
  for (const Case& c : {Case{&CpuidWords::leaf7_1_eax, 4, &Features::avx_vnni},
                        Case{&CpuidWords::leaf7_1_eax, 5, &Features::avx512_bf16},
                        Case{&CpuidWords::leaf7_1_eax, 21, &Features::amx_fp16},
                        Case{&CpuidWords::leaf7_edx, 23, &Features::avx512_fp16},
                        Case{&CpuidWords::leaf7_edx, 24, &Features::amx_tile},
                        Case{&CpuidWords::leaf7_edx, 25, &Features::amx_int8},
                        Case{&CpuidWords::leaf7_edx, 22, &Features::amx_bf16},
                        Case{&CpuidWords::leaf7_ecx, 11, &Features::avx512_vnni},
                        Case{&CpuidWords::leaf7_ebx, 5, &Features::avx2}}) {
    CpuidWords words = everything();
    words.*c.word &= ~(1u << c.bit);
    EXPECT_FALSE(decode_features(words).*c.feature) << c.bit;
    words.*c.word = ~0u;
    EXPECT_TRUE(decode_features(words).*c.feature) << c.bit;
  }
}

// Compares with Linux's list for this processor. Linux does not list amx_fp16, and may
// refuse tiles to a process.
TEST(Features, EqualTheFlagsThatLinuxLists) {
  std::ifstream file("/proc/cpuinfo");
  std::set<std::string> flags;
  for (std::string line; std::getline(file, line) && flags.empty();) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line);
    for (std::string word; words >> word;) flags.insert(word);
  }
  if (flags.empty()) GTEST_SKIP() << "no flags in /proc/cpuinfo";
  const Features& f = features();
  EXPECT_EQ(f.avx2, flags.contains("avx2") && flags.contains("fma") && flags.contains("f16c"));
  EXPECT_EQ(f.avx_vnni, flags.contains("avx_vnni"));
  EXPECT_EQ(f.avx512_vnni, flags.contains("avx512_vnni"));
  EXPECT_EQ(f.avx512_bf16, flags.contains("avx512_bf16"));
  EXPECT_EQ(f.avx512_fp16, flags.contains("avx512_fp16"));
  EXPECT_LE(f.amx_tile, flags.contains("amx_tile"));
  EXPECT_LE(f.amx_int8, flags.contains("amx_int8"));
  EXPECT_LE(f.amx_bf16, flags.contains("amx_bf16"));
}

}  // namespace
}  // namespace billow::cpu
