// Handwritten groups and the values that each format's layout description gives for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "quant/type.h"

namespace billow::quant {
namespace {

struct Byte {
  size_t offset;
  int value;
};

// Elements first..last have this value.
struct Stretch {
  size_t first;
  size_t last;
  float value;
};

// A group, and the values of its elements. Bytes that are not listed are zero; elements that are
// not listed have the value `rest`.
struct Case {
  std::string_view format;
  std::vector<Byte> bytes;
  float rest;
  std::vector<Stretch> stretches;
};

const std::vector<Case>& short_group_cases() {
  static const std::vector<Case> list = {
      {"F32", {{2, 0xC0}, {3, 0x3F}}, 1.5f, {}},
      {"F16", {{0, 0x00}, {1, 0xC1}}, -2.5f, {}},
      {"BF16", {{0, 0x20}, {1, 0x41}}, 10.0f, {}},
      // d = 2, codes 9 and 15
      {"Q4_0", {{1, 0x40}, {2 + 3, 0xF9}}, -16.0f, {{3, 3, 2.0f}, {19, 19, 14.0f}}},
      // d = 2, m = -1, codes 3 and 10
      {"Q4_1", {{1, 0x40}, {3, 0xBC}, {4 + 5, 0xA3}}, -1.0f, {{5, 5, 5.0f}, {21, 21, 19.0f}}},
      // d = 0.5, bit 4 of elements 10 and 31, low bits of 10 and 26
      {"Q5_0",
       {{1, 0x38}, {2 + 1, 0x04}, {2 + 3, 0x80}, {6 + 10, 0x21}},
       -8.0f,
       {{10, 10, 0.5f}, {26, 26, -7.0f}, {31, 31, 0.0f}}},
      // d = 1, m = 0.25, element 0 has all bits, element 16 the code 4
      {"Q5_1",
       {{1, 0x3C}, {3, 0x34}, {4, 0x01}, {8, 0x4F}},
       0.25f,
       {{0, 0, 31.25f}, {16, 16, 4.25f}}},
      // d = -1
      {"Q8_0", {{1, 0xBC}, {2, 0x80}, {2 + 31, 0x7F}}, 0.0f, {{0, 0, 128.0f}, {31, 31, -127.0f}}},
      // d = 1, codes 1 and 15
      {"IQ4_NL", {{1, 0x3C}, {2, 0xF1}}, -127.0f, {{0, 0, -104.0f}, {16, 16, 113.0f}}},
      // 2^1, codes 7 and 15
      {"MXFP4", {{0, 129}, {1, 0xF7}}, 0.0f, {{0, 0, 24.0f}, {16, 16, -24.0f}}},
      // the smallest exponent is subnormal
      {"MXFP4", {{0, 0}, {1 + 4, 0x01}}, 0.0f, {{4, 4, 0x1p-128f}}},
      {"MXFP4", {{0, 1}, {1 + 4, 0x20}}, 0.0f, {{20, 20, 0x1p-126f}}},
      // Parts with the scales 3 * 2^-9, 0 (a NaN), 448 and 2, with codes 1, 7, 2, and 7 and 15
      {"NVFP4",
       {{0, 0x03}, {4, 0x01}, {1, 0x7F}, {12, 0x07}, {2, 0x7E}, {20, 0x20}, {3, 0x40}, {35, 0xF7}},
       0.0f,
       {{0, 0, 0x3p-10f}, {40, 40, 448.0f}, {55, 55, 12.0f}, {63, 63, -12.0f}}},
      // d = 0.5
      {"Q1_0", {{1, 0x38}, {2, 0x01}, {17, 0x80}}, -0.5f, {{0, 0, 0.5f}, {127, 127, 0.5f}}},
      // d = 2, codes 3, 2 and 1
      {"Q2_0",
       {{1, 0x40}, {2, 0x0B}, {17, 0x40}},
       -2.0f,
       {{0, 0, 4.0f}, {1, 1, 2.0f}, {63, 63, 0.0f}}},
  };
  return list;
}

const std::vector<Case>& long_group_cases() {
  static const std::vector<Case> list = {
      // d = 1, d_min = 0.5. Part 0: scale 1, min 2; part 6: scale 5; part 9: scale 3
      {"Q2_K",
       {{81, 0x3C}, {83, 0x38}, {0, 0x21}, {6, 0x05}, {9, 0x03}, {16, 0xC3}, {16 + 48, 0x01}},
       0.0f,
       {{0, 0, 2.0f}, {1, 15, -1.0f}, {96, 96, 15.0f}, {144, 144, 3.0f}}},
      // d = 1. Part 0: scale 33 - 32; part 13: scale 37 - 32; the others -32 with codes of -4
      {"Q3_K",
       {{109, 0x3C},
        {96, 0x01},
        {104, 0x02},
        {0, 0x01},
        {32, 0x03},
        {101, 0x50},
        {105, 0x80},
        {16, 0x40},
        {80, 0x10}},
       128.0f,
       {{0, 0, 3.0f}, {1, 15, -4.0f}, {208, 208, 5.0f}, {209, 223, -20.0f}}},
      // d = 1, d_min = 2. Part 1: scale 3, min 2; part 5: scale 49, min 36
      {"Q4_K",
       {{1, 0x3C},
        {3, 0x40},
        {4 + 1, 0xC3},
        {4 + 5, 0x82},
        {4 + 9, 0x41},
        {16 + 7, 0x50},
        {16 + 95, 0xF0}},
       0.0f,
       {{32, 63, -4.0f}, {39, 39, 11.0f}, {160, 190, -72.0f}, {191, 191, 663.0f}}},
      // The values of Q4_K, with bit 4 set in the two elements that have a code.
      {"Q5_K",
       {{1, 0x3C},
        {3, 0x40},
        {4 + 1, 0xC3},
        {4 + 5, 0x82},
        {4 + 9, 0x41},
        {16 + 7, 0x02},
        {48 + 7, 0x50},
        {16 + 31, 0x20},
        {48 + 95, 0xF0}},
       0.0f,
       {{32, 63, -4.0f}, {39, 39, 59.0f}, {160, 190, -72.0f}, {191, 191, 1447.0f}}},
      // d = 0.5. Part 0: scale 2; part 14: scale -1
      {"Q6_K",
       {{209, 0x38}, {192, 0x02}, {0, 0x0F}, {128, 0x03}, {206, 0xFF}, {96, 0xA0}, {160, 0x80}},
       0.0f,
       {{0, 0, 31.0f}, {1, 15, -32.0f}, {224, 224, -5.0f}, {225, 239, 16.0f}}},
      // d = 1.5; the sums are ignored
      {"Q8_K", {{2, 0xC0}, {3, 0x3F}, {259, 0xFE}, {260, 0x55}}, 0.0f, {{255, 255, -3.0f}}},
      // d = 1. Part 3: scale 33 - 32; part 7: scale 63 - 32; the others -32
      {"IQ4_XS",
       {{1, 0x3C}, {5, 0x10}, {2, 0x80}, {58, 0x8C}, {7, 0xF0}, {3, 0xC0}},
       4064.0f,
       {{96, 127, -127.0f}, {98, 98, 53.0f}, {114, 114, 1.0f}, {224, 255, -3937.0f}}},
  };
  return list;
}

// Formats with grids or digits. Entry 0 of each grid has level 0 eight or four times.
const std::vector<Case>& grid_cases() {
  static const std::vector<Case> list = {
      // d = 1. Part 7: scale 5, so 11 / 8. Its last stretch: entry 1, which has 43 first. The signs
      // of element 1 and, to make them even, of element 7 are set.
      {"IQ2_XXS",
       {{1, 0x3C}, {61, 0x01}, {64, 0x40}, {65, 0x50}},
       1.0f,
       {{224, 255, 11.0f}, {248, 248, 59.125f}, {249, 249, -11.0f}, {255, 255, -11.0f}}},
      // d = 1. Part 15: scale 1, so 3 / 8. Its last stretch: entry 257 (25, 43, 8, .., 8, 25),
      // signs as before.
      {"IQ2_XS",
       {{1, 0x3C}, {64, 0x01}, {65, 0x05}, {73, 0x10}},
       1.0f,
       {{240, 255, 3.0f}, {248, 248, 9.375f}, {249, 249, -16.125f}, {255, 255, -9.375f}}},
      // d = 1. Part 15 as before. Its last stretch: entry 513 (25, 8, 8, 25, 25, 8, 8, 25), with
      // the signs of the first and the last element.
      {"IQ2_S",
       {{1, 0x3C}, {33, 0x01}, {73, 0x80}, {65, 0x81}, {81, 0x10}},
       1.0f,
       {{240, 255, 3.0f}, {248, 248, -9.375f}, {251, 252, 9.375f}, {255, 255, -9.375f}}},
      // d = 1. Part 7: scale 5, so 11 / 4. The last entry: 255 (4, 28, 52, 62), with the signs of
      // element 253 and, to make them even, of element 255.
      {"IQ3_XXS",
       {{1, 0x3C}, {65, 0xFF}, {97, 0x54}},
       1.0f,
       {{224, 255, 11.0f}, {253, 253, -77.0f}, {254, 254, 143.0f}, {255, 255, -170.5f}}},
      // d = 1. Part 7: scale 2, so 5. The last entry: 257 (5, 7, 9, 5), with the sign of element
      // 254.
      {"IQ3_S",
       {{1, 0x3C}, {65, 0x01}, {73, 0x80}, {105, 0x40}, {109, 0x20}},
       1.0f,
       {{224, 251, 5.0f},
        {252, 252, 25.0f},
        {253, 253, 35.0f},
        {254, 254, -45.0f},
        {255, 255, 25.0f}}},
      // d = 1. Part 7: scale 2, so 5, with the shift. Its last stretch: entry 0x501, with the
      // levels 0 1 1 1 0 1 2 1.
      {"IQ1_S",
       {{1, 0x3C}, {33, 0x01}, {49, 0xAA}},
       -0.875f,
       {{224, 255, -5.625f},
        {249, 251, -0.625f},
        {253, 253, -0.625f},
        {254, 254, 4.375f},
        {255, 255, -0.625f}}},
      // The same, but only the last stretch has the shift.
      {"IQ1_M",
       {{53, 0xC0}, {55, 0x34}, {31, 0x01}, {47, 0xD0}},
       -0.875f,
       {{240, 247, -4.375f},
        {248, 255, -5.625f},
        {249, 251, -0.625f},
        {253, 253, -0.625f},
        {254, 254, 4.375f},
        {255, 255, -0.625f}}},
      // d = 2, digits 2 0 1 0 2, 2 2 2 2 2 and 1 0 0 0
      {"TQ1_0",
       {{53, 0x40}, {3, 183}, {47, 255}, {51, 86}},
       -2.0f,
       {{3, 3, 2.0f},
        {67, 67, 0.0f},
        {131, 131, 2.0f},
        {175, 175, 2.0f},
        {191, 191, 2.0f},
        {207, 207, 2.0f},
        {223, 223, 2.0f},
        {239, 239, 2.0f},
        {243, 243, 0.0f}}},
      // d = 2, codes 2, 1 and 3
      {"TQ2_0",
       {{65, 0x40}, {5, 0x20}, {63, 0xC1}},
       -2.0f,
       {{69, 69, 2.0f}, {159, 159, 0.0f}, {255, 255, 4.0f}}},
  };
  return list;
}

std::vector<Case> cases() {
  std::vector<Case> all = short_group_cases();
  all.insert(all.end(), long_group_cases().begin(), long_group_cases().end());
  all.insert(all.end(), grid_cases().begin(), grid_cases().end());
  return all;
}

TEST(LayoutTest, GroupsDecodeByTheirLayout) {
  for (const Case& c : cases()) {
    const TypeRow* format = find_type(c.format);
    ASSERT_NE(format, nullptr) << c.format;
    std::vector<std::byte> group(format->group_bytes, std::byte{0});
    for (const Byte& byte : c.bytes) group.at(byte.offset) = static_cast<std::byte>(byte.value);
    std::vector<float> expected(format->group_len, c.rest);
    for (const Stretch& stretch : c.stretches) {
      for (size_t i = stretch.first; i <= stretch.last; ++i) expected.at(i) = stretch.value;
    }
    std::vector<float> decoded(format->group_len);
    format->decode(group.data(), decoded.size(), decoded.data());
    for (size_t i = 0; i < decoded.size(); ++i) {
      EXPECT_EQ(decoded[i], expected[i]) << c.format << " element " << i;
    }
  }
}

// If a format can hold a group's values exactly, it encodes exactly these values.
TEST(LayoutTest, Iq4NlEncodesItsOwnValuesExactly) {
  const int steps[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<float> values(32);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f * static_cast<float>(steps[i % 16]);
  std::vector<std::byte> expected = {std::byte{0x00}, std::byte{0x38}};
  for (int j = 0; j < 16; ++j) expected.push_back(static_cast<std::byte>(j * 0x11));
  std::vector<std::byte> group(18);
  row(Type::kIQ4_NL).encode(values.data(), values.size(), group.data());
  EXPECT_EQ(group, expected);
}

TEST(LayoutTest, Q8KEncodesCodesAndTheirSums) {
  std::vector<float> values(256, 0.0f);
  values[16] = 31.75f;  // becomes code -127, so the scale is -0.25
  values[17] = -1.0f;
  values[255] = -0.5f;
  std::vector<std::byte> expected(292, std::byte{0});
  const auto set = [&](size_t offset, int byte) {
    expected[offset] = static_cast<std::byte>(byte);
  };
  set(2, 0x80);
  set(3, 0xBE);
  set(4 + 16, 0x81);  // -127
  set(4 + 17, 4);
  set(4 + 255, 2);
  set(260 + 2, 0x85);  // -123
  set(260 + 3, 0xFF);
  set(260 + 30, 2);
  std::vector<std::byte> group(292);
  row(Type::kQ8_K).encode(values.data(), values.size(), group.data());
  EXPECT_EQ(group, expected);
}

TEST(LayoutTest, EveryFormatHasACase) {
  for (const TypeRow& format : types()) {
    const bool found =
        std::ranges::any_of(cases(), [&](const Case& c) { return c.format == format.name; });
    EXPECT_TRUE(found) << format.name << ": add a handwritten group to layout_test.cpp";
  }
}

}  // namespace
}  // namespace billow::quant
