// Tests that every format of type_list.h must pass.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "quant/scalar_isa.h"
#include "quant/type.h"
#include "quant/type_list.h"
#include "quant/unpack.h"

namespace billow::quant {
namespace {

constexpr size_t kRowLen = 512;

struct Bounds {
  double error;              // max relative RMSE on Gaussian data, a few % above a good encoder
  float outlier = 6.0f;      // max error of an outlier of 100
  float others = 20.0f;      // max magnitude of the other elements
  float smallest = 1e-2f;    // min deviation of data for which the scales are fine enough
  float largest = 65504.0f;  // max magnitude of data
};

const std::map<std::string_view, Bounds>& bounds_by_name() {
  static const std::map<std::string_view, Bounds> bounds = {
      {"F32", {0.0}},
      {"F16", {2.2e-4}},
      {"BF16", {1.8e-3}},
      {"Q4_0", {0.088}},
      {"Q4_1", {0.081}},
      {"Q5_0", {0.0435}},
      {"Q5_1", {0.0395}},
      {"Q8_0", {0.0056}},
      {"Q2_K", {0.285}},
      {"Q3_K", {0.152}},
      {"Q4_K", {0.0745}},
      {"Q5_K", {0.0375}},
      {"Q6_K", {0.0182}},
      {"Q8_K", {0.0073}},
      {"IQ2_XXS", {.error = 0.345, .outlier = 15.0f}},
      {"IQ2_XS", {.error = 0.30, .outlier = 10.0f}},
      {"IQ3_XXS", {0.186}},
      {"IQ1_S", {0.485}},
      {"IQ4_NL", {0.081}},
      {"IQ3_S", {.error = 0.137, .outlier = 17.0f}},
      {"IQ2_S", {.error = 0.251, .outlier = 10.0f}},
      {"IQ4_XS", {0.079}},
      {"IQ1_M", {0.44}},
      {"TQ1_0", {0.83}},
      {"TQ2_0", {0.83}},
      {"MXFP4", {0.119}},
      // In a file, a scale per matrix brings values into the range of the parts' scales.
      {"NVFP4", {.error = 0.101, .smallest = 0.5f, .largest = 2688.0f}},
      // All values of a group get the same magnitude: the mean.
      {"Q1_0", {.error = 0.62, .outlier = 99.9f, .others = 1.0f}},
      {"Q2_0", {0.745}},
  };
  return bounds;
}

const Bounds& bounds_of(const TypeRow& format) {
  const auto found = bounds_by_name().find(format.name);
  if (found == bounds_by_name().end()) {
    ADD_FAILURE() << "give " << format.name << " bounds in format_test.cpp";
    static constexpr Bounds kNone = {0.0};
    return kNone;
  }
  return found->second;
}

std::vector<std::byte> encode(const TypeRow& format, const std::vector<float>& values) {
  std::vector<std::byte> bytes(row_bytes(format.type, values.size()));
  format.encode(values.data(), values.size(), bytes.data());
  return bytes;
}

std::vector<float> round_trip(const TypeRow& format, const std::vector<float>& values) {
  std::vector<float> decoded(values.size());
  format.decode(encode(format, values).data(), values.size(), decoded.data());
  return decoded;
}

std::vector<float> gaussian(size_t n, float deviation) {
  std::mt19937 random(7);
  std::normal_distribution<float> draw(0.0f, deviation);
  std::vector<float> values(n);
  std::ranges::generate(values, [&] { return draw(random); });
  return values;
}

double relative_rmse(const std::vector<float>& values, const std::vector<float>& decoded) {
  double error = 0;
  double size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    error += std::pow(static_cast<double>(values[i]) - static_cast<double>(decoded[i]), 2);
    size += std::pow(static_cast<double>(values[i]), 2);
  }
  return std::sqrt(error / size);
}

template <class Format>
class FormatTest : public ::testing::Test {
 protected:
  const TypeRow& format() const { return row(Format::kType); }
};

template <class List>
struct TestTypes;
template <class... Format>
struct TestTypes<TypeList<Format...>> {
  using Type = ::testing::Types<Format...>;
};

struct FormatName {
  template <class Format>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): GoogleTest's name
    return std::string(Format::kName);
  }
};

TYPED_TEST_SUITE(FormatTest, TestTypes<Formats>::Type, FormatName);

TYPED_TEST(FormatTest, KeepsGaussianDataWithinItsErrorBound) {
  const Bounds& bounds = bounds_of(this->format());
  // Trained weights are about 1e-2. At the last deviation, the values span about `largest`.
  for (float deviation : {bounds.smallest, 1.0f, bounds.largest / 8.2f}) {
    const std::vector<float> values = gaussian(size_t{256} * 64, deviation);
    const double error = relative_rmse(values, round_trip(this->format(), values));
    EXPECT_LE(error, bounds.error) << deviation;
    if (TypeParam::kType != Type::kF32) {
      EXPECT_GT(error, bounds.error / 2) << deviation;
    }
  }
}

TYPED_TEST(FormatTest, ZeroIsExact) {
  for (float value : round_trip(this->format(), std::vector<float>(kRowLen, 0.0f))) {
    ASSERT_EQ(value, 0.0f);
  }
}

TYPED_TEST(FormatTest, KeepsConstants) {
  for (float constant : {0.75f, -0.75f, 24.0f, -24.0f}) {
    for (float value : round_trip(this->format(), std::vector<float>(kRowLen, constant))) {
      ASSERT_NEAR(value, constant, 0.01f * std::fabs(constant));
    }
  }
}

TYPED_TEST(FormatTest, KeepsOneOutlier) {
  for (float outlier : {100.0f, -100.0f}) {
    std::vector<float> values = gaussian(kRowLen, 0.1f);
    values[37] = outlier;
    const std::vector<float> decoded = round_trip(this->format(), values);
    const Bounds& bounds = bounds_of(this->format());
    EXPECT_NEAR(decoded[37], outlier, bounds.outlier);
    for (size_t i = 0; i < values.size(); ++i) {
      if (i != 37) {
        ASSERT_LT(std::fabs(decoded[i]), bounds.others) << i;
      }
    }
  }
}

TYPED_TEST(FormatTest, RoundsValuesBelowTheRangeOfF16ToNearlyZero) {
  for (float size : {1e-40f, 1e-30f, 1e-9f}) {
    for (float value : round_trip(this->format(), gaussian(kRowLen, size))) {
      ASSERT_LT(std::fabs(value), 1e-6f);
    }
  }
}

TYPED_TEST(FormatTest, KeepsTheLargestValuesFinite) {
  const float largest = bounds_of(this->format()).largest;
  std::vector<float> values(kRowLen);
  for (size_t i = 0; i < values.size(); ++i) values[i] = i % 4 < 2 ? -largest : largest;
  const std::vector<float> decoded = round_trip(this->format(), values);
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(std::isfinite(decoded[i]));
    ASSERT_NEAR(decoded[i], values[i], 0.3f * largest);
  }
}

TYPED_TEST(FormatTest, EncodesAnythingWithoutUndefinedBehaviour) {
  constexpr float kHuge = std::numeric_limits<float>::max();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (float odd : {kHuge, -kHuge, kInf, -kInf, kNan}) {
    std::vector<float> values = gaussian(kRowLen, 1.0f);
    values[0] = odd;
    values[300] = odd;
    EXPECT_EQ(round_trip(this->format(), values).size(), values.size());
    std::ranges::fill(values, odd);
    EXPECT_EQ(round_trip(this->format(), values).size(), values.size());
  }
}

TYPED_TEST(FormatTest, RowIsASequenceOfGroups) {
  const std::vector<float> values = gaussian(kRowLen, 1.0f);
  const TypeRow& format = this->format();
  const std::vector<std::byte> bytes = encode(format, values);
  const std::vector<float> decoded = round_trip(format, values);
  for (size_t first = 0; first < kRowLen; first += format.group_len) {
    const std::vector<float> part(
        values.begin() + static_cast<ptrdiff_t>(first),
        values.begin() + static_cast<ptrdiff_t>(first + format.group_len));
    const std::vector<std::byte> part_bytes = encode(format, part);
    const size_t offset = first / format.group_len * format.group_bytes;
    ASSERT_TRUE(std::equal(part_bytes.begin(), part_bytes.end(),
                           bytes.begin() + static_cast<ptrdiff_t>(offset)));
  }
}

// Any bytes at any address are a valid group, and decode and unpack agree. They agree exactly,
// because the product of a scale and a code fits in a float.
TYPED_TEST(FormatTest, UnpackedFormEqualsDecodedValuesForAnyBytes) {
  using Group = typename TypeParam::Group;
  std::mt19937 random(11);
  std::vector<uint8_t> bytes(sizeof(Group) + 1);
  for (int trial = 0; trial < 500; ++trial) {
    std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random()); });
    const auto& group = *reinterpret_cast<const Group*>(bytes.data() + trial % 2);
    std::vector<float> decoded(TypeParam::kGroupLen);
    TypeParam::decode(group, decoded.data());
    if constexpr (TypeParam::kInteger) {
      std::vector<int8_t> codes(TypeParam::kGroupLen);
      std::vector<float> scales(TypeParam::kGroupLen / kScaleGroup);
      std::vector<float> offsets(TypeParam::kGroupLen / kScaleGroup);
      TypeParam::template unpack<ScalarIsa>(group, codes.data(), scales.data(), offsets.data());
      for (size_t i = 0; i < decoded.size(); ++i) {
        const float scale = scales[i / kScaleGroup];
        const float value = scale * static_cast<float>(codes[i]) + offsets[i / kScaleGroup];
        ASSERT_TRUE(value == decoded[i] || (std::isnan(value) && std::isnan(decoded[i])))
            << "element " << i << ": " << value << " and " << decoded[i];
      }
    }
  }
}

}  // namespace
}  // namespace billow::quant
