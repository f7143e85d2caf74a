#include "quant/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace billow::quant {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

// Returns the value of a finite half by the definition of the format: sign, 5 bits of exponent, 10
// of fraction.
double half_value(uint32_t bits) {
  const int exponent = static_cast<int>((bits >> 10) & 31);
  const double fraction = static_cast<double>(bits & 1023);
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

uint16_t u16(uint32_t value) { return static_cast<uint16_t>(value); }

TEST(HalfTest, EveryHalfConvertsToItsValue) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(u16(bits));
    ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    if ((bits & 0x7C00u) != 0x7C00u) {
      ASSERT_EQ(static_cast<double>(value), half_value(bits)) << bits;
    } else if ((bits & 0x3FFu) == 0) {
      ASSERT_TRUE(std::isinf(value)) << bits;
    } else {
      ASSERT_TRUE(std::isnan(value)) << bits;
    }
  }
}

TEST(HalfTest, EveryHalfSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = f16_to_f32(u16(bits));
    const uint16_t back = f32_to_f16(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(f16_to_f32(back))) << bits;
      ASSERT_EQ(back & 0x8000u, bits & 0x8000u) << bits;
    } else {
      ASSERT_EQ(back, bits);
    }
  }
}

// Between two adjacent halves, values below the midpoint round down, values above it round up, and
// the midpoint rounds to the even one. The half after the largest finite one would be 65536, which
// is infinity.
TEST(HalfTest, RoundsToNearestEvenAtEveryBoundary) {
  for (uint32_t low = 0; low < 0x7C00; ++low) {
    const uint32_t high = low + 1;
    const double high_value = high == 0x7C00 ? 65536.0 : half_value(high);
    const float midpoint = static_cast<float>((half_value(low) + high_value) / 2);
    const uint32_t even = low % 2 == 0 ? low : high;
    for (uint32_t sign : {0u, 0x8000u}) {
      const float direction = sign == 0 ? 1.0f : -1.0f;
      ASSERT_EQ(f32_to_f16(direction * std::nextafter(midpoint, 0.0f)), low | sign) << midpoint;
      ASSERT_EQ(f32_to_f16(direction * midpoint), even | sign) << midpoint;
      ASSERT_EQ(f32_to_f16(direction * std::nextafter(midpoint, kInf)), high | sign) << midpoint;
    }
  }
}

TEST(HalfTest, ExtremeFloatsBecomeZeroOrInfinity) {
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(f32_to_f16(-std::numeric_limits<float>::denorm_min()), 0x8000);
  EXPECT_EQ(f32_to_f16(std::numeric_limits<float>::max()), 0x7C00);
  EXPECT_EQ(f32_to_f16(-kInf), 0xFC00);
  EXPECT_TRUE(std::isnan(f16_to_f32(f32_to_f16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(Bf16Test, EveryValueSurvivesARoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bf16_to_f32(u16(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(bf16_to_f32(f32_to_bf16(value)))) << bits;
    } else {
      ASSERT_EQ(f32_to_bf16(value), bits);
    }
  }
}

TEST(Bf16Test, RoundsToNearestEvenAtEveryBoundary) {
  for (uint32_t low = 0; low < 0x7F80; ++low) {
    const uint32_t even = low % 2 == 0 ? low : low + 1;
    for (uint32_t sign : {0u, 0x8000u}) {
      const uint32_t midpoint = ((low | sign) << 16) + 0x8000u;
      ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(midpoint - 1)), low | sign);
      ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(midpoint)), even | sign);
      ASSERT_EQ(f32_to_bf16(std::bit_cast<float>(midpoint + 1)), (low + 1) | sign);
    }
  }
}

}  // namespace
}  // namespace billow::quant
