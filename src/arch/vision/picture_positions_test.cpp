// Tests how position grids are resized. Source of the numbers: torch 2.8, interpolate() with
// bilinear, antialias=True; and linspace().
#include "arch/vision/picture_positions.h"

#include <gtest/gtest.h>

#include <numeric>
#include <utility>
#include <vector>

namespace billow::arch {
namespace {

using enum PositionKind;

void expect_taps(const std::vector<AxisTap>& taps,
                 const std::vector<std::pair<uint32_t, float>>& expected) {
  ASSERT_EQ(taps.size(), expected.size());
  for (size_t i = 0; i < taps.size(); ++i) {
    EXPECT_EQ(taps[i].index, expected[i].first);
    EXPECT_NEAR(taps[i].weight, expected[i].second, 1e-6f);
  }
}

TEST(PicturePositions, OfTheSameSizeAreThoseOfTheGrid) {
  for (const PositionKind kind : {kResized, kStretched}) {
    const AxisTaps taps = resized_taps(kind, 4, 4);
    ASSERT_EQ(taps.size(), 4u);
    for (uint32_t i = 0; i < 4; ++i) {
      float own = 0.0f;
      for (const AxisTap& tap : taps[i]) own += tap.index == i ? tap.weight : 0.0f;
      EXPECT_EQ(own, 1.0f);
    }
  }
}

TEST(PicturePositions, AreInterpolatedWhenTheGridGrows) {
  const AxisTaps taps = resized_taps(kResized, 2, 4);
  expect_taps(taps[0], {{0, 1.0f}});
  expect_taps(taps[1], {{0, 0.75f}, {1, 0.25f}});
  expect_taps(taps[2], {{0, 0.25f}, {1, 0.75f}});
  expect_taps(taps[3], {{1, 1.0f}});
}

TEST(PicturePositions, AreMeansWhenTheGridShrinks) {
  const AxisTaps taps = resized_taps(kResized, 4, 2);
  expect_taps(taps[0], {{0, 3.0f / 7}, {1, 3.0f / 7}, {2, 1.0f / 7}});
  expect_taps(taps[1], {{1, 1.0f / 7}, {2, 3.0f / 7}, {3, 3.0f / 7}});
}

TEST(PicturePositions, AreStretchedFromCornerToCorner) {
  const AxisTaps taps = resized_taps(kStretched, 4, 3);
  expect_taps(taps[0], {{0, 1.0f}, {1, 0.0f}});
  expect_taps(taps[1], {{1, 0.5f}, {2, 0.5f}});
  expect_taps(taps[2], {{3, 1.0f}, {3, 0.0f}});
}

TEST(PicturePositions, OfOneRowAreTheFirst) {
  expect_taps(resized_taps(kStretched, 4, 1)[0], {{0, 1.0f}});
}

// Whatever the sizes are, indices are in the grid and the parts are a whole.
TEST(PicturePositions, AreAlwaysAWhole) {
  for (const PositionKind kind : {kResized, kStretched}) {
    for (size_t grid = 1; grid < 40; ++grid) {
      for (size_t n = 1; n < 70; ++n) {
        for (const std::vector<AxisTap>& taps : resized_taps(kind, grid, n)) {
          float sum = 0.0f;
          for (const AxisTap& tap : taps) {
            ASSERT_LT(tap.index, grid);
            sum += tap.weight;
          }
          ASSERT_NEAR(sum, 1.0f, 1e-5f) << grid << " to " << n;
        }
      }
    }
  }
}

}  // namespace
}  // namespace billow::arch
