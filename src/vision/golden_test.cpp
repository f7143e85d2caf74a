// Compares with what the image processors of Hugging Face transformers make of 50 pictures:
// tests/vision/record_golden.py records it.
#include <gtest/gtest.h>

#include <array>
#include <charconv>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "vision/pixels.h"
#include "vision/test_support.h"

namespace billow::vision {
namespace {

using image::Picture;

const std::array<std::string, 12> kConfigurations{"gemma3",   "gemma4",     "idefics3", "internvl",
                                                  "lfm2_vl",  "llama4",     "mistral3", "pixtral",
                                                  "qwen2_vl", "qwen2_5_vl", "qwen3_vl", "smolvlm"};

Rule golden_rule(const Json& golden) {
  const Json& keys = golden.at("keys");
  gguf::Writer writer = test::projector(golden.at("projector").get<std::string>(),
                                        keys.at("clip.vision.image_size").get<uint32_t>(),
                                        keys.at("clip.vision.patch_size").get<uint32_t>());
  for (const auto& [key, value] : keys.items()) writer.set_uint(key, value.get<uint32_t>());
  writer.set_floats("clip.vision.image_mean", golden.at("mean").get<std::vector<float>>());
  writer.set_floats("clip.vision.image_std", golden.at("std").get<std::vector<float>>());
  return test::rule_of(writer);
}

// "WIDTHxHEIGHT+NOISE" is a drawn picture, anything else a file.
Picture picture_of(const std::string& name) {
  std::array<uint32_t, 3> numbers{};
  const char* at = name.data();
  for (uint32_t& number : numbers) {
    const auto [end, error] = std::from_chars(at, name.data() + name.size(), number);
    if (error != std::errc())
      return image::decode(test::bytes_of(test::golden_folder() + "pictures/" + name));
    at = end + 1;
  }
  return test::drawn(numbers[0], numbers[1], numbers[2]);
}

Json tiles_of(const Plan& plan) {
  Json tiles = Json::array();
  for (const Tile& tile : plan.tiles) tiles.push_back({tile.size.width, tile.size.height});
  return tiles;
}

Json pieces_of(const Plan& plan) {
  Json pieces = Json::array();
  for (const Piece& piece : plan.pieces) {
    if (piece.n_tokens > 0)
      pieces.push_back(piece.n_tokens);
    else
      pieces.push_back(piece.text);
  }
  return pieces;
}

size_t n_tokens_of(const Json& pieces) {
  size_t n = 0;
  for (const Json& piece : pieces)
    if (piece.is_number()) n += piece.get<size_t>();
  return n;
}

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, PixelsTilesAndTokensAreThoseOfTransformers) {
  const Json golden = Json::parse(test::bytes_of(test::golden_folder() + GetParam() + ".json"));
  const Rule rule = golden_rule(golden);
  size_t n_equal = 0;
  size_t n_refused = 0;
  for (const Json& expected : golden.at("pictures")) {
    const auto name = expected.at("picture").get<std::string>();
    SCOPED_TRACE(name);
    const Picture picture = picture_of(name);
    if (expected.contains("error")) {
      EXPECT_THROW(preprocess(rule, picture), Error);
      ++n_refused;
      continue;
    }
    const Pixels pixels = preprocess(rule, picture);
    EXPECT_EQ(tiles_of(pixels.plan), expected.at("tiles"));
    EXPECT_EQ(pieces_of(pixels.plan), expected.at("pieces"));
    EXPECT_EQ(pixels.plan.n_tokens, n_tokens_of(expected.at("pieces")));
    if (HasFailure()) return;
    const std::vector<float> planes = test::planes_of(pixels, rule);
    const std::vector<uint8_t> levels = test::levels_of(planes, pixels.plan, rule);
    EXPECT_LE(test::largest_difference(levels, expected.at("samples").get<std::string>()), 1);
    const bool is_equal =
        test::crc32(std::as_bytes(std::span(levels))) == expected.at("levels").get<uint32_t>() &&
        test::crc32(std::as_bytes(std::span(planes))) == expected.at("floats").get<uint32_t>();
    // Versions of the JPEG decoder may differ by a level.
    EXPECT_TRUE(is_equal || name.ends_with(".jpg"));
    n_equal += is_equal ? 1 : 0;
  }
  EXPECT_EQ(golden.at("pictures").size(), 50u);
  std::cout << GetParam() << ": " << n_equal << " of 50 pictures equal bit for bit, " << n_refused
            << " refused\n";
}

INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(kConfigurations),
                         [](const auto& test_info) { return test_info.param; });

}  // namespace
}  // namespace billow::vision
