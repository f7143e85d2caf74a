#include "quantize/number_check.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"

namespace billow::quantize {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kMax = std::numeric_limits<float>::max();

std::vector<std::byte> encoded(quant::Type type, const std::vector<float>& values) {
  std::vector<std::byte> bytes(quant::row_bytes(type, values.size()));
  quant::row(type).encode(values.data(), values.size(), bytes.data());
  return bytes;
}

// Numbers from -1 to 1.
std::vector<float> sample(size_t n) {
  std::vector<float> values(n);
  for (size_t i = 0; i < n; ++i) values[i] = std::sin(static_cast<float>(i));
  return values;
}

Fault fault_of(quant::Type type, std::vector<float> values, const float* importance = nullptr) {
  std::vector<std::byte> bytes(quant::row_bytes(type, values.size()));
  const Fault fault = encode_checked(type, values, values.size(), importance, bytes.data());
  return fault;
}

std::string text_of(Fault fault, quant::Type type) {
  try {
    throw_fault(fault, "a.weight", type);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(NumberCheckTest, FindsLargestMagnitude) {
  EXPECT_EQ(largest_magnitude({}), 0.0f);
  for (const size_t n : {1u, 7u, 64u, 101u}) {
    for (size_t at = 0; at < n; ++at) {
      std::vector<float> values(n, -0.5f);
      values[at] = -3.0f;
      EXPECT_EQ(largest_magnitude(values), 3.0f);
      values[at] = -kInfinity;
      EXPECT_EQ(largest_magnitude(values), kInfinity);
      values[n / 2] = -std::nanf("");
      EXPECT_TRUE(std::isnan(largest_magnitude(values)));
    }
  }
}

TEST(NumberCheckTest, FindsNumberThatIsNotFiniteInEncodedRows) {
  for (const quant::Type type : {quant::Type::kF32, quant::Type::kF16, quant::Type::kBF16}) {
    std::vector<float> values = sample(77);
    values[3] = 65504.0f;
    EXPECT_TRUE(are_finite(type, encoded(type, values)));
    for (const float odd : {kInfinity, -kInfinity, std::nanf(""), -std::nanf("")}) {
      for (const size_t at : {0u, 40u, 76u}) {
        std::vector<float> wrong = values;
        wrong[at] = odd;
        EXPECT_FALSE(are_finite(type, encoded(type, wrong))) << at;
      }
    }
  }
}

TEST(NumberCheckTest, FindsScaleThatIsNotFinite) {
  std::vector<std::byte> bytes = encoded(quant::Type::kMXFP4, sample(96));
  EXPECT_TRUE(are_finite(quant::Type::kMXFP4, bytes));
  bytes[34] = std::byte{255};
  EXPECT_FALSE(are_finite(quant::Type::kMXFP4, bytes));
  bytes = encoded(quant::Type::kNVFP4, sample(128));
  EXPECT_TRUE(are_finite(quant::Type::kNVFP4, bytes));
  bytes[36 + 3] = std::byte{0x7F};
  EXPECT_FALSE(are_finite(quant::Type::kNVFP4, bytes));
}

TEST(NumberCheckTest, FindsNumbersThatTypeCannotHold) {
  const auto with = [](float value) {
    std::vector<float> values = sample(64);
    values[33] = value;
    return values;
  };
  for (const quant::Type type :
       {quant::Type::kF32, quant::Type::kF16, quant::Type::kBF16, quant::Type::kQ8_0}) {
    EXPECT_EQ(fault_of(type, with(-65000.0f)), Fault::kNone);
    EXPECT_EQ(fault_of(type, with(-kInfinity)), Fault::kNotFinite);
    EXPECT_EQ(fault_of(type, with(std::nanf(""))), Fault::kNotFinite);
  }
  EXPECT_EQ(fault_of(quant::Type::kF16, with(65519.0f)), Fault::kNone);
  EXPECT_EQ(fault_of(quant::Type::kF16, with(-65520.0f)), Fault::kTooLarge);
  EXPECT_EQ(fault_of(quant::Type::kQ8_0, with(8e6f)), Fault::kNone);
  EXPECT_EQ(fault_of(quant::Type::kQ8_0, with(1e9f)), Fault::kTooLarge);
  EXPECT_EQ(fault_of(quant::Type::kBF16, with(3.38e38f)), Fault::kNone);
  EXPECT_EQ(fault_of(quant::Type::kBF16, with(kMax)), Fault::kTooLarge);
  EXPECT_EQ(fault_of(quant::Type::kF32, with(kMax)), Fault::kNone);
}

TEST(NumberCheckTest, FindsImportanceThatMakesInfinity) {
  const std::vector<float> usual(256, 2.0f);
  const std::vector<float> huge(256, kMax);
  for (const quant::Type type : {quant::Type::kQ4_0, quant::Type::kQ5_0}) {
    EXPECT_EQ(fault_of(type, sample(256), usual.data()), Fault::kNone);
    EXPECT_EQ(fault_of(type, sample(256), huge.data()), Fault::kImportance);
  }
}

TEST(NumberCheckTest, ErrorsSayWhatToDo) {
  EXPECT_EQ(text_of(Fault::kNotFinite, quant::Type::kF16),
            "tensor 'a.weight' has numbers that are not finite; the model is damaged, so get its "
            "files again");
  EXPECT_EQ(text_of(Fault::kTooLarge, quant::Type::kQ8_0),
            "tensor 'a.weight' has numbers that are too large for Q8_0; use F32 or BF16");
  EXPECT_EQ(text_of(Fault::kTooLarge, quant::Type::kBF16),
            "tensor 'a.weight' has numbers that are too large for BF16; use F32");
  EXPECT_EQ(text_of(Fault::kImportance, quant::Type::kQ4_0),
            "tensor 'a.weight' has numbers that are not finite as Q4_0 with this importance "
            "matrix; measure the matrix again with billow imatrix");
}

}  // namespace
}  // namespace billow::quantize
