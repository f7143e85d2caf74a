#include "context/picture_rule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace billow::context {
namespace {

using Kind = PictureRule::Kind;

TEST(PictureRule, Squares) {
  const PictureRule gemma{.kind = Kind::kSquare, .cell = 56, .edge = 896};
  EXPECT_EQ(max_rows(gemma, 10, 10), 256 + kPictureMarkers);
  EXPECT_EQ(max_rows(gemma, 4000, 3000), 256 + kPictureMarkers);
}

TEST(PictureRule, PicturesThatKeepTheirAspectRatio) {
  const PictureRule qwen{.kind = Kind::kScaled, .cell = 28, .min_rows = 8, .max_rows = 4096};
  EXPECT_EQ(max_rows(qwen, 280, 560), 10 * 20 + 20 + kPictureMarkers);
  EXPECT_EQ(max_rows(qwen, 281, 560), 11 * 20 + 20 + kPictureMarkers);
  // Few pixels are scaled up, many are scaled down.
  EXPECT_GE(max_rows(qwen, 1, 1), 8u);
  EXPECT_LE(max_rows(qwen, 1, 1), 30u);
  EXPECT_GE(max_rows(qwen, 8000, 6000), 4096u);
  EXPECT_LE(max_rows(qwen, 8000, 6000), 4096u + 200u);
}

TEST(PictureRule, Tiles) {
  const PictureRule tiles{.kind = Kind::kTiled, .cell = 28, .edge = 448, .max_tiles = 12};
  const size_t tile = 256 + kPictureMarkers;
  EXPECT_EQ(max_rows(tiles, 10'000, 10), 13 * tile);
  EXPECT_EQ(max_rows(tiles, 448, 448), tile) << "not split into tiles";
  EXPECT_EQ(max_rows(tiles, 449, 448), 3 * tile);
  const PictureRule scaled{
      .kind = Kind::kTiled, .cell = 32, .edge = 512, .min_rows = 2048, .max_tiles = 16};
  EXPECT_EQ(max_rows(scaled, 10, 10), 17 * tile);
  EXPECT_EQ(max_rows(scaled, 100, 25), 5 * tile);
}

TEST(PictureRule, SurvivesMeaninglessNumbers) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  EXPECT_GT(max_rows({}, 0, 0), 0u);
  EXPECT_GT(max_rows({.kind = Kind::kScaled, .cell = 0}, 0, 0), 0u);
  EXPECT_GT(max_rows({.kind = Kind::kScaled, .cell = 1}, kMax, kMax), 0u);
  EXPECT_EQ(max_rows({.kind = Kind::kTiled, .cell = 1, .edge = kMax, .max_tiles = kMax}, 1, 1),
            kMax);
  EXPECT_GT(max_rows({.kind = Kind::kTiled, .cell = 0, .edge = 0, .max_tiles = kMax}, kMax, 7), 0u);
}

}  // namespace
}  // namespace billow::context
