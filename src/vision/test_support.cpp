#include "vision/test_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/test_source_dir.h"
#include "vision/family.h"

namespace billow::vision::test {

std::string golden_folder() { return source_dir() + "/tests/vision/golden/"; }

std::string bytes_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in) << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

image::Picture drawn(uint32_t width, uint32_t height, uint32_t amplitude) {
  image::Picture picture{.size = {width, height}, .rgb = {}};
  picture.rgb.reserve(size_t{width} * height * 3);
  for (uint64_t y = 0; y < height; ++y) {
    for (uint64_t x = 0; x < width; ++x) {
      const uint64_t noise = (((x * 73856093) ^ (y * 19349663)) >> 7) & amplitude;
      const uint64_t red = x * 255 / std::max(width - 1, 1u);
      const uint64_t green = ((x * x + 3 * y * y) >> 6) & 255;
      const uint64_t blue = (x / 6 + y / 6) % 2 == 1 ? 215 : 25;
      for (const uint64_t level : {red, green, blue})
        picture.rgb.push_back(static_cast<uint8_t>(std::min<uint64_t>(level + noise, 255)));
    }
  }
  return picture;
}

uint32_t crc32(std::span<const std::byte> bytes) {
  static const auto table = [] {
    std::array<uint32_t, 256> values{};
    for (uint32_t i = 0; i < 256; ++i) {
      values[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        values[i] = (values[i] >> 1) ^ ((values[i] & 1) != 0 ? 0xedb88320u : 0);
    }
    return values;
  }();
  uint32_t crc = ~0u;
  for (const std::byte byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ static_cast<uint32_t>(byte)) & 255];
  return ~crc;
}

int largest_difference(std::span<const uint8_t> levels, const std::string& samples) {
  int largest = 0;
  for (uint64_t k = 0; 2 * k + 1 < samples.size(); ++k) {
    const int expected = std::stoi(samples.substr(2 * k, 2), nullptr, 16);
    largest = std::max(largest, std::abs(levels[k * 2654435761 % levels.size()] - expected));
  }
  return largest;
}

gguf::Writer projector(const std::string& type, uint32_t image_size, uint32_t patch_size) {
  gguf::Writer writer;
  writer.set_bool("clip.has_vision_encoder", true);
  writer.set_string("clip.projector_type", type);
  writer.set_uint("clip.vision.image_size", image_size);
  writer.set_uint("clip.vision.patch_size", patch_size);
  writer.set_floats("clip.vision.image_mean", std::array<float, 3>{0, 0, 0});
  writer.set_floats("clip.vision.image_std", std::array<float, 3>{1, 1, 1});
  return writer;
}

Rule rule_of(const gguf::Writer& writer) {
  const std::vector<std::byte> bytes = writer.to_bytes();
  return vision::rule_of(gguf::File::parse(bytes, "mmproj"));
}

std::vector<float> planes_of(const Pixels& pixels, const Rule& rule) {
  const size_t patch = rule.patch_size;
  std::vector<float> planes(pixels.patches.size());
  size_t start = 0;
  for (const Tile& tile : pixels.plan.tiles) {
    const bool has_blocks = rule.family->order == PatchOrder::kMergeBlocks;
    const size_t merge = has_blocks ? rule.merge : 1;
    size_t i = tile.first_patch;
    for (size_t block_row = 0; block_row < tile.rows; block_row += merge)
      for (size_t block_col = 0; block_col < tile.cols; block_col += merge)
        for (size_t row = block_row; row < block_row + merge; ++row)
          for (size_t col = block_col; col < block_col + merge; ++col, ++i)
            for (size_t c = 0; c < 3; ++c)
              for (size_t y = 0; y < patch; ++y)
                for (size_t x = 0; x < patch; ++x)
                  planes[start + (c * tile.size.height + row * patch + y) * tile.size.width +
                         col * patch + x] = pixels.patches[((i * 3 + c) * patch + y) * patch + x];
    start += size_t{3} * tile.size.width * tile.size.height;
  }
  EXPECT_EQ(start, planes.size());
  return planes;
}

std::vector<uint8_t> levels_of(const std::vector<float>& planes, const Plan& plan,
                               const Rule& rule) {
  std::vector<uint8_t> levels;
  levels.reserve(planes.size());
  for (const Tile& tile : plan.tiles)
    for (size_t c = 0; c < 3; ++c)
      for (size_t i = 0; i < size_t{tile.size.width} * tile.size.height; ++i)
        levels.push_back(static_cast<uint8_t>(std::clamp(
            std::lround((planes[levels.size()] * rule.std[c] + rule.mean[c]) * 255), 0l, 255l)));
  return levels;
}

}  // namespace billow::vision::test
