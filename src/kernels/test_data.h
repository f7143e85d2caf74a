// Inputs that the kernel tests share.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/test_isa/test_isa.h"

namespace billow::kernels {

inline std::vector<float> gaussian(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  std::vector<float> values(n);
  for (float& value : values) value = draw(random);
  return values;
}

inline const KernelTable& scalar() { return *tables().back(); }

// The tables that this machine can run, beside scalar; those that only tests have among them.
inline std::vector<const KernelTable*> fast_tables() {
  std::vector<const KernelTable*> usable;
  for (const KernelTable* table : tables()) {
    if (table != &scalar() && table->supported(cpu::features())) usable.push_back(table);
  }
  for (const KernelTable* table : test_tables()) {
    if (table->supported(cpu::features())) usable.push_back(table);
  }
  return usable;
}

// A parameterised test over fast_tables().
class EachTable : public testing::TestWithParam<const KernelTable*> {};
inline std::string table_name(const testing::TestParamInfo<const KernelTable*>& info) {
  return std::string(info.param->name);
}

}  // namespace billow::kernels
