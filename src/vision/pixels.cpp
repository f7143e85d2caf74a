#include "vision/pixels.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "vision/family.h"
#include "vision/resize.h"

namespace billow::vision {
namespace {

using image::Picture;
using image::Size;

// The float of each grey level, for each channel.
using Levels = std::array<std::array<float, 256>, 3>;

float bf16(float value) {
  // To the nearest; halfway to even. REQUIRES: finite.
  const auto bits = std::bit_cast<uint32_t>(value);
  return std::bit_cast<float>((bits + 0x7fff + ((bits >> 16) & 1)) & 0xffff0000u);
}

float fused(float level, float mean, float std) { return (level - mean * 255) / (std * 255); }

float in_bf16(float level, float mean, float std) {
  const float scaled = bf16(level * (1.0f / 255));
  return bf16(bf16(scaled - bf16(mean)) / bf16(std));
}

float product(float level, float /*mean*/, float /*std*/) { return level * (1.0f / 255); }

// In the order of Scaling.
constexpr std::array kScalings{fused, in_bf16, product};

Levels levels_of(const Rule& rule) {
  const auto scaled = kScalings[static_cast<size_t>(rule.family->scaling)];
  Levels levels;
  for (size_t c = 0; c < 3; ++c)
    for (size_t i = 0; i < 256; ++i)
      levels[c][i] = scaled(static_cast<float>(i), rule.mean[c], rule.std[c]);
  return levels;
}

// Adds black pixels on the right and below.
Picture padded(Picture picture, Size canvas) {
  if (picture.size == canvas) return picture;
  Picture out{.size = canvas, .rgb = {}};
  out.rgb.assign(size_t{canvas.width} * canvas.height * 3, 0);
  const size_t row_bytes = size_t{picture.size.width} * 3;
  for (size_t y = 0; y < picture.size.height; ++y)
    std::memcpy(out.rgb.data() + y * canvas.width * 3, picture.rgb.data() + y * row_bytes,
                row_bytes);
  return out;
}

// Writes the patches of one tile, whose upper left corner is at (left, top) of the picture.
void write_patches(const Picture& picture, size_t left, size_t top, const Tile& tile,
                   const Rule& rule, const Levels& levels, float* out) {
  const size_t patch = rule.patch_size;
  for (size_t i = 0; i < size_t{tile.rows} * tile.cols; ++i, out += 3 * patch * patch) {
    const PatchPlace place = place_of_patch(rule, tile, i);
    const size_t row = place.row;
    const size_t col = place.col;
    for (size_t y = 0; y < patch; ++y) {
      const uint8_t* from = picture.rgb.data() +
                            ((top + row * patch + y) * picture.size.width + left + col * patch) * 3;
      for (size_t x = 0; x < patch; ++x, from += 3)
        for (size_t c = 0; c < 3; ++c) out[(c * patch + y) * patch + x] = levels[c][from[c]];
    }
  }
}

}  // namespace

PatchPlace place_of_patch(const Rule& rule, const Tile& tile, size_t i) noexcept {
  const auto place = [](size_t row, size_t col) {
    return PatchPlace{static_cast<uint32_t>(row), static_cast<uint32_t>(col)};
  };
  if (rule.family->order == PatchOrder::kRows) return place(i / tile.cols, i % tile.cols);
  const size_t merge = rule.merge;
  const size_t block = i / (merge * merge);
  const size_t within = i % (merge * merge);
  const size_t blocks_per_row = tile.cols / merge;
  return place(block / blocks_per_row * merge + within / merge,
               block % blocks_per_row * merge + within % merge);
}

Pixels preprocess(const Rule& rule, const Picture& picture) {
  Pixels pixels{.plan = plan_of(rule, picture.size), .patches = {}};
  BILLOW_CHECK(picture.rgb.size() == size_t{picture.size.width} * picture.size.height * 3);
  const Levels levels = levels_of(rule);
  const size_t patch_floats = size_t{3} * rule.patch_size * rule.patch_size;
  pixels.patches.resize(pixels.plan.n_patches * patch_floats);
  Picture resized;
  size_t i = 0;
  for (const View& view : pixels.plan.views) {
    resized = padded(resize(view.from_previous ? resized : picture, view.size, rule.family->filter,
                            Arithmetic::kTorch),
                     view.canvas);
    for (size_t row = 0; row < view.rows; ++row) {
      for (size_t col = 0; col < view.cols; ++col, ++i) {
        const Tile& tile = pixels.plan.tiles[i];
        write_patches(resized, col * tile.size.width, row * tile.size.height, tile, rule, levels,
                      pixels.patches.data() + tile.first_patch * patch_floats);
      }
    }
  }
  return pixels;
}

}  // namespace billow::vision
