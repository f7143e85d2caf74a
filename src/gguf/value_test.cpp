#include "gguf/value.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>

namespace billow::gguf {
namespace {

template <typename T, size_t N>
Array array_of(ValueType type, const T (&values)[N]) {
  return {.element_type = type,
          .n = N,
          .bytes = std::as_bytes(std::span(values)),
          .strings = {},
          .arrays = {}};
}

TEST(Value, TypesMatchTheSpecification) {
  EXPECT_TRUE(is_value_type(0));
  EXPECT_TRUE(is_value_type(12));
  EXPECT_FALSE(is_value_type(13));
  EXPECT_EQ(value_type_name(ValueType::kF64), "f64");
  EXPECT_EQ(value_type_name(ValueType::kBool), "bool");
  EXPECT_EQ(value_type_name(static_cast<ValueType>(99)), "unknown");
  EXPECT_EQ(value_type_bytes(ValueType::kBool), 1u);
  EXPECT_EQ(value_type_bytes(ValueType::kI16), 2u);
  EXPECT_EQ(value_type_bytes(ValueType::kU64), 8u);
  EXPECT_EQ(value_type_bytes(ValueType::kString), 0u);
}

TEST(Value, DecodesScalarsAtAnyAlignment) {
  std::byte bytes[9] = {};
  const int64_t number = -7;
  std::memcpy(bytes + 1, &number, sizeof number);
  EXPECT_EQ(std::get<int64_t>(decode_scalar(ValueType::kI64, bytes + 1).data), -7);
  EXPECT_EQ(std::get<int64_t>(decode_scalar(ValueType::kI8, bytes + 1).data), -7);
  EXPECT_EQ(std::get<uint64_t>(decode_scalar(ValueType::kU16, bytes + 1).data), 65529u);
}

TEST(Value, ConversionsRejectOtherTypesAndRanges) {
  const Value positive{ValueType::kI32, int64_t{5}};
  const Value negative{ValueType::kI32, int64_t{-5}};
  const Value real{ValueType::kF32, 1.5};
  const Value yes{ValueType::kBool, uint64_t{1}};
  const Value text{ValueType::kString, std::string_view("5")};
  EXPECT_EQ(as_uint(positive), 5u);
  EXPECT_EQ(as_uint(negative), std::nullopt);
  EXPECT_EQ(as_uint(real), std::nullopt);
  EXPECT_EQ(as_uint(yes), std::nullopt);
  EXPECT_EQ(as_float(negative), -5.0);
  EXPECT_EQ(as_float(real), 1.5);
  EXPECT_EQ(as_float(yes), std::nullopt);
  EXPECT_EQ(as_float(text), std::nullopt);
  EXPECT_EQ(as_bool(yes), true);
  EXPECT_EQ(as_bool({ValueType::kI8, int64_t{0}}), false);
  EXPECT_EQ(as_bool(positive), std::nullopt);
  EXPECT_EQ(as_bool(real), std::nullopt);
  EXPECT_EQ(as_string(text), "5");
  EXPECT_EQ(as_string(yes), std::nullopt);
  EXPECT_EQ(as_array(yes), nullptr);
}

TEST(Value, ReadsArrayElementsOfEveryType) {
  const int16_t shorts[] = {-1, 300};
  EXPECT_EQ(array_of(ValueType::kI16, shorts).integer(1), 300);
  EXPECT_EQ(array_of(ValueType::kI16, shorts).number(0), -1.0);
  const uint8_t bools[] = {0, 1};
  EXPECT_EQ(array_of(ValueType::kBool, bools).integer(1), 1);
  const float floats[] = {0.5f, -2.75f};
  EXPECT_EQ(array_of(ValueType::kF32, floats).number(0), 0.5);
  EXPECT_EQ(array_of(ValueType::kF32, floats).integer(1), -2);
}

TEST(Value, ArrayIntegersSaturate) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  const double reals[] = {1e300, -1e300, std::numeric_limits<double>::quiet_NaN(),
                          std::numeric_limits<double>::infinity(), -9223372036854775808.0};
  const Array array = array_of(ValueType::kF64, reals);
  EXPECT_EQ(array.integer(0), kMax);
  EXPECT_EQ(array.integer(1), kMin);
  EXPECT_EQ(array.integer(2), 0);
  EXPECT_EQ(array.integer(3), kMax);
  EXPECT_EQ(array.integer(4), kMin);
  const uint64_t large[] = {std::numeric_limits<uint64_t>::max()};
  EXPECT_EQ(array_of(ValueType::kU64, large).integer(0), kMax);
}

}  // namespace
}  // namespace billow::gguf
