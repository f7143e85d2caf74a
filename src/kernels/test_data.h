// Shared inputs of the kernel tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/kernel_table.h"
#include "kernels/test_isa/test_isa.h"
#include "quant/type.h"

namespace billow::kernels {

// Returns nearly normal numbers: sums of four uniform numbers. The library's distribution computes
// logarithms of long doubles, which would take most of the time of some tests.
inline std::vector<float> gaussian(size_t n, unsigned seed) {
  constexpr float kUnit = 1.0f / 65536;
  constexpr float kDeviation = 1.7320508f;  // the variance of the sum is 1/3
  std::mt19937_64 random(seed);
  std::vector<float> values(n);
  for (float& value : values) {
    const uint64_t bits = random();
    const uint64_t sum =
        (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
    value = (static_cast<float>(sum) * kUnit - 2.0f) * kDeviation;
  }
  return values;
}

// The encoders of grids are slow, especially with sanitizers. So rows of large groups consist of 16
// encoded groups, drawn at random.
inline std::vector<std::byte> make_rows(quant::Type type, size_t n, size_t k, unsigned seed) {
  constexpr size_t kLargeGroup = 256;
  const quant::TypeRow& row = quant::row(type);
  std::vector<std::byte> rows(n * quant::row_bytes(type, k));
  if (row.group_len < kLargeGroup) {
    row.encode(gaussian(n * k, seed).data(), n * k, rows.data());
    return rows;
  }
  std::vector<std::byte> groups(size_t{16} * row.group_bytes);
  row.encode(gaussian(16 * kLargeGroup, seed).data(), 16 * kLargeGroup, groups.data());
  std::mt19937 random(seed);
  for (size_t at = 0; at < rows.size(); at += row.group_bytes)
    std::copy_n(&groups[random() % 16 * row.group_bytes], row.group_bytes, &rows[at]);
  return rows;
}

// Returns rows of gaussian weights in a file format. The tests of all tables use the same rows, so
// they are encoded once. One thread at a time.
inline const std::vector<std::byte>& encoded_rows(quant::Type type, size_t n, size_t k,
                                                  unsigned seed) {
  static std::map<std::tuple<quant::Type, size_t, size_t, unsigned>, std::vector<std::byte>> made;
  const auto [rows, is_new] = made.try_emplace({type, n, k, seed});
  if (is_new) rows->second = make_rows(type, n, k, seed);
  return rows->second;
}

inline const KernelTable& scalar() { return *tables().back(); }

// Returns the tables that this machine can run, except scalar; includes the tables that only tests
// have.
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
