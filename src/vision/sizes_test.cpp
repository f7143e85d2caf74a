#include "vision/sizes.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace billow::vision {
namespace {

using image::Size;

TEST(Sizes, SmartSizeRoundsHalvesToEven) {
  EXPECT_EQ(smart_size({70, 42}, 28, 1, 1 << 20), (Size{56, 56}));  // 2.5 and 1.5 tokens
  EXPECT_EQ(smart_size({150, 100}, 28, 3136, 1003520), (Size{140, 112}));
  EXPECT_EQ(smart_size({4000, 3000}, 28, 3136, 1003520), (Size{1148, 840}));
  EXPECT_EQ(smart_size({200, 1}, 28, 3136, 1003520), (Size{812, 28}));
  EXPECT_THROW(smart_size({201, 1}, 28, 3136, 1003520), Error);
}

TEST(Sizes, BudgetSizeKeepsTheShape) {
  EXPECT_EQ(budget_size({150, 100}, 12, 140 * 144), (Size{168, 108}));
  EXPECT_EQ(budget_size({1000, 1}, 12, 140 * 144), (Size{1680, 12}));
  EXPECT_EQ(budget_size({1, 1000}, 12, 140 * 144), (Size{12, 1680}));
}

TEST(Sizes, FittedSizeRoundsUp) {
  EXPECT_EQ(fitted_size({150, 100}, 224, 28), (Size{168, 112}));
  EXPECT_EQ(fitted_size({225, 10}, 224, 28), (Size{224, 28}));
  EXPECT_EQ(fitted_size({10000, 1}, 224, 28), (Size{224, 28}));  // the reference fails
}

TEST(Sizes, StretchedSizeIsEvenAndBounded) {
  EXPECT_EQ(stretched_size({150, 100}, 128), (Size{128, 86}));
  EXPECT_EQ(stretched_size({100, 150}, 128), (Size{86, 128}));
  EXPECT_EQ(stretched_size({10, 10}, 101), (Size{101, 102}));
  EXPECT_EQ(stretched_size({1000, 1}, 128), (Size{128, 1}));
  EXPECT_EQ(stretched_size({100, 50}, 8000), (Size{4096, 2048}));
}

TEST(Sizes, ClosestGridPrefersMoreTilesOfTheSameShape) {
  EXPECT_EQ(closest_grid({100, 100}, 448, 1, 12), (Size{1, 1}));
  EXPECT_EQ(closest_grid({900, 900}, 448, 1, 12), (Size{2, 2}));
  EXPECT_EQ(closest_grid({1000, 1000}, 448, 1, 12), (Size{3, 3}));
  EXPECT_EQ(closest_grid({5000, 100}, 448, 1, 12), (Size{12, 1}));
  EXPECT_EQ(closest_grid({600, 600}, 448, 1, 12), (Size{1, 1}));
}

TEST(Sizes, BestCanvasReducesAsLittleAsPossible) {
  const Canvas small = best_canvas({150, 100}, 336, 16);
  EXPECT_EQ(small.padded, (Size{336, 336}));
  EXPECT_EQ(small.size, (Size{336, 224}));
  const Canvas large = best_canvas({5000, 5000}, 336, 16);
  EXPECT_EQ(large.padded, (Size{1344, 1344}));
  EXPECT_EQ(best_canvas({5000, 1}, 336, 16).size.height, 1u);
}

}  // namespace
}  // namespace billow::vision
