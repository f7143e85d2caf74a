// Compares with pixel values that were recorded together with tiny models: the projectors' own
// headers give the rules. The folder ../shared is next to the repository; without it, the test is
// skipped. Source of the pixels: Hugging Face transformers 5.12.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "base/test_source_dir.h"
#include "vision/pixels.h"
#include "vision/test_support.h"

namespace billow::vision {
namespace {

const std::string kFolder = source_dir() + "/../shared/data/vision/";

struct Recorded {
  std::string name;
  uint64_t min_pixels = 0;  // where the recording has other limits than the file
  uint64_t max_pixels = 0;
};

const std::array<Recorded, 12> kRecorded{{{"gemma3"},
                                          {"gemma4", 0, 140 * 12 * 12},
                                          {"gemma4-e", 0, 140 * 12 * 12},
                                          {"internvl"},
                                          {"lfm2_vl"},
                                          {"llama4"},
                                          {"mistral3"},
                                          {"qwen2_5_vl"},
                                          {"qwen2_vl"},
                                          {"qwen3_5", 3136},
                                          {"qwen3_vl", 3136},
                                          {"smolvlm"}}};

// Reads the floats of a .npy file of version 1.
std::vector<float> floats_of(const std::string& path) {
  const std::string bytes = test::bytes_of(path);
  EXPECT_GT(bytes.size(), 10u);
  const size_t start = 10 + static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  EXPECT_NE(bytes.substr(0, start).find("'<f4'"), std::string::npos);
  std::vector<float> floats((bytes.size() - start) / sizeof(float));
  std::memcpy(floats.data(), bytes.data() + start, floats.size() * sizeof(float));
  return floats;
}

class RecordedPixels : public testing::TestWithParam<Recorded> {};

TEST_P(RecordedPixels, AreEqual) {
  if (!std::filesystem::exists(kFolder + "picture.png"))
    GTEST_SKIP() << "no recorded pixels: " << kFolder << " is not there";
  const Recorded& recorded = GetParam();
  Rule rule = rule_of(gguf::File::open_header(kFolder + recorded.name + ".mmproj.gguf"));
  if (recorded.min_pixels > 0) rule.min_pixels = recorded.min_pixels;
  if (recorded.max_pixels > 0) rule.max_pixels = recorded.max_pixels;
  const Pixels pixels = preprocess(rule, image::decode(test::bytes_of(kFolder + "picture.png")));
  const std::vector<float> planes = test::planes_of(pixels, rule);
  const std::vector<float> expected = floats_of(kFolder + recorded.name + ".pixels.npy");
  ASSERT_EQ(planes.size(), expected.size());
  const std::vector<uint8_t> levels = test::levels_of(planes, pixels.plan, rule);
  const std::vector<uint8_t> expected_levels = test::levels_of(expected, pixels.plan, rule);
  int largest = 0;
  for (size_t i = 0; i < levels.size(); ++i)
    largest = std::max(largest, std::abs(levels[i] - expected_levels[i]));
  EXPECT_LE(largest, 1);
  std::cout << recorded.name << ": " << (planes == expected ? "equal bit for bit" : "not equal")
            << "; largest difference of levels " << largest << "\n";
}

INSTANTIATE_TEST_SUITE_P(TinyModels, RecordedPixels, testing::ValuesIn(kRecorded),
                         [](const auto& test_info) {
                           std::string name = test_info.param.name;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace billow::vision
