#include "quant/type.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

namespace billow::quant {
namespace {

TEST(TypeTest, FindsEveryRowByNumberAndName) {
  ASSERT_FALSE(types().empty());
  for (const TypeRow& format : types()) {
    std::string lower(format.name);
    std::ranges::transform(lower, lower.begin(),
                           [](char c) { return static_cast<char>(std::tolower(c)); });
    EXPECT_EQ(find_type(static_cast<uint32_t>(format.type)), &format) << format.name;
    EXPECT_EQ(find_type(format.name), &format) << format.name;
    EXPECT_EQ(find_type(lower), &format) << format.name;
    EXPECT_EQ(&row(format.type), &format) << format.name;
  }
}

TEST(TypeTest, NumbersAndNamesAreUnique) {
  std::set<Type> numbers;
  std::set<std::string_view> names;
  for (const TypeRow& format : types()) {
    EXPECT_TRUE(numbers.insert(format.type).second) << format.name;
    EXPECT_TRUE(names.insert(format.name).second) << format.name;
  }
}

TEST(TypeTest, ReturnsNullForUnknownNumbersAndNames) {
  for (uint32_t id : {4u, 5u, 9u, 24u, 31u, 43u, 256u, 258u, 0xFFFFFFFFu}) {
    EXPECT_EQ(find_type(id), nullptr) << id;
  }
  for (const char* name : {"", "Q4", "Q4_K_M", "Q4_K ", "IQ2_M", "Q9_0"}) {
    EXPECT_EQ(find_type(name), nullptr) << name;
  }
}

TEST(TypeTest, RowBytesCountsGroups) {
  EXPECT_EQ(row_bytes(Type::kF32, 7), 28u);
  EXPECT_EQ(row_bytes(Type::kF16, 7), 14u);
  EXPECT_EQ(row_bytes(Type::kQ4_0, 896), 504u);
  EXPECT_EQ(row_bytes(Type::kQ6_K, 512), 420u);
  EXPECT_EQ(row_bytes(Type::kMXFP4, 2880), 1530u);
  EXPECT_EQ(row_bytes(Type::kQ4_K, 0), 0u);
}

TEST(TypeDeathTest, RowBytesRejectsPartOfAGroup) {
  EXPECT_DEATH(row_bytes(Type::kQ4_K, 128), "group_len");
}

// The rows of the published table of formats.
TEST(TypeTest, GroupSizesEqualThePublishedSizes) {
  struct Size {
    Type type;
    uint32_t group_len;
    uint32_t group_bytes;
  };
  const Size sizes[] = {
      {Type::kF32, 1, 4},        {Type::kF16, 1, 2},        {Type::kBF16, 1, 2},
      {Type::kQ4_0, 32, 18},     {Type::kQ4_1, 32, 20},     {Type::kQ5_0, 32, 22},
      {Type::kQ5_1, 32, 24},     {Type::kQ8_0, 32, 34},     {Type::kQ2_K, 256, 84},
      {Type::kQ3_K, 256, 110},   {Type::kQ4_K, 256, 144},   {Type::kQ5_K, 256, 176},
      {Type::kQ6_K, 256, 210},   {Type::kQ8_K, 256, 292},   {Type::kIQ4_NL, 32, 18},
      {Type::kIQ4_XS, 256, 136}, {Type::kMXFP4, 32, 17},    {Type::kIQ2_XXS, 256, 66},
      {Type::kIQ2_XS, 256, 74},  {Type::kIQ3_XXS, 256, 98}, {Type::kIQ1_S, 256, 50},
      {Type::kIQ3_S, 256, 110},  {Type::kIQ2_S, 256, 82},   {Type::kIQ1_M, 256, 56},
      {Type::kTQ1_0, 256, 54},   {Type::kTQ2_0, 256, 66},   {Type::kNVFP4, 64, 36},
      {Type::kQ1_0, 128, 18},    {Type::kQ2_0, 64, 18},
  };
  EXPECT_EQ(std::size(sizes), types().size());
  for (const Size& size : sizes) {
    EXPECT_EQ(row(size.type).group_len, size.group_len) << row(size.type).name;
    EXPECT_EQ(row(size.type).group_bytes, size.group_bytes) << row(size.type).name;
  }
}

// Bits of a weight in the packed form, without the factors of rows.
TEST(TypeTest, PackedFormHasTheExpectedBitsPerWeight) {
  struct Size {
    Type type;
    double bits;
  };
  const Size sizes[] = {
      {Type::kQ4_0, 4.5},      {Type::kQ4_1, 5.0},      {Type::kQ5_0, 5.5},
      {Type::kQ5_1, 6.0},      {Type::kQ8_0, 8.5},      {Type::kQ2_K, 2.625},
      {Type::kQ3_K, 3.625},    {Type::kQ4_K, 4.625},    {Type::kQ5_K, 5.625},
      {Type::kQ6_K, 6.625},    {Type::kIQ2_XXS, 3.375}, {Type::kIQ2_XS, 3.625},
      {Type::kIQ3_XXS, 4.375}, {Type::kIQ1_S, 3.0},     {Type::kIQ4_NL, 4.5},
      {Type::kIQ3_S, 4.375},   {Type::kIQ2_S, 3.625},   {Type::kIQ4_XS, 4.375},
      {Type::kIQ1_M, 3.625},   {Type::kTQ1_0, 2.5},     {Type::kTQ2_0, 2.5},
      {Type::kMXFP4, 4.5},     {Type::kNVFP4, 5.0},     {Type::kQ1_0, 2.5},
      {Type::kQ2_0, 2.5},
  };
  for (const Size& size : sizes) {
    const Packing& packing = row(size.type).packing;
    const size_t n_bytes = packing.strip_bytes(4096) - packing.strip_bytes(0);
    EXPECT_EQ(static_cast<double>(n_bytes) * 8.0 / (16.0 * 4096.0), size.bits)
        << row(size.type).name;
  }
}

}  // namespace
}  // namespace billow::quant
