// Compares pixels with those that were recorded together with the tiny models: the projectors' own
// headers give the rules. Source of the pixels: Hugging Face transformers 5.12.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>
#include <vector>

#include "vision/test_support.h"
#include "vision/tiny_pictures.h"

namespace billow::pictures {
namespace {

class RecordedPixels : public testing::TestWithParam<Family> {};

TEST_P(RecordedPixels, AreEqual) {
  if (const std::string missing = missing_data(); !missing.empty()) GTEST_SKIP() << missing;
  const Family& family = GetParam();
  const vision::Rule rule = rule_of(family, open(family));
  const vision::Pixels pixels = pixels_of_picture(rule);
  const std::vector<float> planes = vision::test::planes_of(pixels, rule);
  const std::vector<float> expected = npy_floats(folder() + family.name + ".pixels.npy");
  ASSERT_EQ(planes.size(), expected.size());
  const std::vector<uint8_t> levels = vision::test::levels_of(planes, pixels.plan, rule);
  const std::vector<uint8_t> expected_levels = vision::test::levels_of(expected, pixels.plan, rule);
  int largest = 0;
  for (size_t i = 0; i < levels.size(); ++i)
    largest = std::max(largest, std::abs(levels[i] - expected_levels[i]));
  EXPECT_LE(largest, 1);
  std::cout << family.name << ": " << (planes == expected ? "equal bit for bit" : "not equal")
            << "; largest difference of levels " << largest << "\n";
}

INSTANTIATE_TEST_SUITE_P(TinyModels, RecordedPixels, testing::ValuesIn(families()), test_name);

}  // namespace
}  // namespace billow::pictures
