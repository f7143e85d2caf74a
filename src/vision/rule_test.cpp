#include "vision/rule.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/error.h"
#include "vision/test_support.h"

namespace billow::vision {
namespace {

using test::projector;
using test::rule_of;

// Returns the message of the error.
std::string refusal(const gguf::Writer& writer, ErrorCode code = ErrorCode::kInvalidInput) {
  try {
    rule_of(writer);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    const std::string message = error.what();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    EXPECT_TRUE(message.starts_with("mmproj: ")) << message;
    return message;
  }
  return "no error";
}

bool has(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

TEST(Rule, ReadsTheKeysOfTheFile) {
  gguf::Writer writer = projector("qwen3vl_merger", 768, 16);
  writer.set_uint("clip.vision.spatial_merge_size", 3);
  writer.set_uint("clip.vision.image_min_pixels", 5000);
  writer.set_uint("clip.vision.image_max_pixels", 70000);
  writer.set_floats("clip.vision.image_mean", std::array<float, 3>{0.1f, 0.2f, 0.3f});
  const Rule rule = rule_of(writer);
  EXPECT_EQ(rule.token_size(), 48u);
  EXPECT_EQ(rule.min_pixels, 5000u);
  EXPECT_EQ(rule.max_pixels, 70000u);
  EXPECT_EQ(rule.mean, (std::array<float, 3>{0.1f, 0.2f, 0.3f}));
  EXPECT_EQ(placeholder_of(rule), "<|image_pad|>");
}

TEST(Rule, HasDefaultsOfTheFamily) {
  const Rule qwen = rule_of(projector("qwen2vl_merger", 560, 14));
  EXPECT_EQ(qwen.min_pixels, 3136u);
  EXPECT_EQ(qwen.max_pixels, 4096u * 784);
  const Rule lfm2 = rule_of(projector("lfm2", 256, 16));
  EXPECT_EQ(lfm2.tile_size, 512u);
  EXPECT_EQ(lfm2.max_pixels, 262144u);
  EXPECT_EQ(lfm2.max_tiles, 10u);
  const Rule gemma4 = rule_of(projector("gemma4v", 224, 16));
  EXPECT_EQ(gemma4.max_pixels, 280u * 48 * 48);
}

TEST(Rule, TakesTheProjectorTypeOfEitherKey) {
  gguf::Writer writer;
  writer.set_string("clip.vision.projector_type", "gemma4v");
  writer.set_uint("clip.vision.image_size", 224);
  writer.set_uint("clip.vision.patch_size", 16);
  writer.set_floats("clip.vision.image_mean", std::array<float, 3>{0, 0, 0});
  writer.set_floats("clip.vision.image_std", std::array<float, 3>{1, 1, 1});
  EXPECT_EQ(rule_of(writer).token_size(), 48u);
}

TEST(Rule, RefusesUnknownFamiliesByName) {
  const std::string message = refusal(projector("resampler", 448, 14), ErrorCode::kUnsupported);
  EXPECT_TRUE(has(message, "\"resampler\" is not supported; known are gemma3, gemma4v")) << message;
  gguf::Writer hears = projector("gemma3", 896, 14);
  hears.set_bool("clip.has_vision_encoder", false);
  EXPECT_TRUE(has(refusal(hears, ErrorCode::kUnsupported), "no vision encoder"));
  EXPECT_TRUE(has(refusal(gguf::Writer(), ErrorCode::kUnsupported), "projector_type is missing"));
}

TEST(Rule, RefusesNumbersThatCannotBe) {
  EXPECT_TRUE(has(refusal(projector("gemma3", 0, 14)), "clip.vision.image_size is 0"));
  EXPECT_TRUE(has(refusal(projector("gemma3", 896, 0)), "clip.vision.patch_size is 0"));
  EXPECT_TRUE(has(refusal(projector("gemma3", 4'000'000'000, 14)), "it must be from 1 to 4096"));
  EXPECT_TRUE(has(refusal(projector("gemma3", 900, 14)), "a tile of 900 pixels"));
  EXPECT_TRUE(has(refusal(projector("lfm2", 256, 24)), "a tile of 512 pixels"));
  gguf::Writer colors = projector("gemma3", 896, 14);
  colors.set_floats("clip.vision.image_std", std::array<float, 2>{1, 1});
  EXPECT_TRUE(has(refusal(colors), "clip.vision.image_std must have 3 numbers"));
  colors.set_floats("clip.vision.image_std", std::array<float, 3>{1, 0, 1});
  EXPECT_TRUE(has(refusal(colors), "clip.vision.image_std must be above 0"));
  gguf::Writer tiles = projector("internvl", 448, 14);
  tiles.set_uint("clip.vision.preproc_min_tiles", 13);
  EXPECT_TRUE(has(refusal(tiles), "preproc_min_tiles is above"));
  gguf::Writer pixels = projector("qwen2vl_merger", 560, 14);
  pixels.set_uint("clip.vision.image_max_pixels", 783);
  EXPECT_TRUE(has(refusal(pixels), "image_max_pixels is below one token"));
}

}  // namespace
}  // namespace billow::vision
