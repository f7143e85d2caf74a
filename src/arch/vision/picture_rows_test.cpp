#include "arch/vision/picture_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "vision/family.h"

namespace billow::arch {
namespace {

vision::Rule rule_of(vision::PatchOrder order, uint32_t merge) {
  vision::Rule rule{.merge = merge};
  for (const vision::Family& family : vision::families())
    if (family.order == order) rule.family = &family;
  return rule;
}

vision::Tile tile(uint32_t rows, uint32_t cols, size_t first_patch, uint32_t merge) {
  return {.size = {},
          .rows = rows,
          .cols = cols,
          .first_patch = first_patch,
          .token_rows = rows / merge,
          .token_cols = cols / merge};
}

std::vector<uint32_t> patches_of(const PictureRows& plan) {
  std::vector<uint32_t> patches;
  for (const PictureRow& row : plan.rows) patches.push_back(row.patch);
  return patches;
}

constexpr uint32_t kClass = PictureRow::kNoPatch;

TEST(PictureRows, AreThePatchesOfTheTiles) {
  const std::vector<vision::Tile> tiles = {tile(2, 2, 0, 2), tile(2, 4, 4, 2)};
  const PictureRows plan =
      plan_picture_rows(rule_of(vision::PatchOrder::kMergeBlocks, 2), tiles, ClassRow::kNone, 0);
  EXPECT_EQ(patches_of(plan), (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(plan.tile_ends, (std::vector<uint32_t>{4, 12}));
  EXPECT_TRUE(plan.window_ends.empty());
  // The second tile has two blocks of 2 x 2 patches, side by side.
  EXPECT_EQ(plan.row_at, (std::vector<uint32_t>{0, 1, 2, 3, 4, 5, 8, 9, 6, 7, 10, 11}));
  EXPECT_EQ(plan.rows[8].row, 0u);
  EXPECT_EQ(plan.rows[8].col, 2u);
}

TEST(PictureRows, HaveAClassRowForEachTile) {
  const std::vector<vision::Tile> tiles = {tile(1, 2, 0, 1), tile(1, 1, 2, 1)};
  const vision::Rule rule = rule_of(vision::PatchOrder::kRows, 1);
  const PictureRows first = plan_picture_rows(rule, tiles, ClassRow::kFirst, 0);
  EXPECT_EQ(patches_of(first), (std::vector<uint32_t>{kClass, 0, 1, kClass, 2}));
  EXPECT_EQ(first.tile_ends, (std::vector<uint32_t>{3, 5}));
  EXPECT_EQ(first.row_at, (std::vector<uint32_t>{1, 2, 4}));
  const PictureRows last = plan_picture_rows(rule, tiles, ClassRow::kLast, 0);
  EXPECT_EQ(patches_of(last), (std::vector<uint32_t>{0, 1, kClass, 2, kClass}));
  EXPECT_EQ(last.row_at, (std::vector<uint32_t>{0, 1, 3}));
}

TEST(PictureRows, WindowsAreCutOffAtTheTilesSides) {
  const std::vector<vision::Tile> tiles = {tile(3, 5, 0, 1)};
  const PictureRows plan =
      plan_picture_rows(rule_of(vision::PatchOrder::kRows, 1), tiles, ClassRow::kNone, 2);
  EXPECT_EQ(patches_of(plan),
            (std::vector<uint32_t>{0, 1, 5, 6, 2, 3, 7, 8, 4, 9, 10, 11, 12, 13, 14}));
  EXPECT_EQ(plan.window_ends, (std::vector<uint32_t>{4, 8, 10, 12, 14, 15}));
  EXPECT_EQ(plan.tile_ends, (std::vector<uint32_t>{15}));
}

TEST(PictureRows, TokensAreInRows) {
  const std::vector<vision::Tile> tiles = {tile(4, 2, 0, 2), tile(2, 2, 8, 2)};
  const std::vector<TokenPlace> tokens = plan_tokens(tiles);
  ASSERT_EQ(tokens.size(), 3u);
  EXPECT_EQ(tokens[1].row, 1u);
  EXPECT_EQ(tokens[1].col, 0u);
  EXPECT_EQ(tokens[2].tile, 1u);
}

}  // namespace
}  // namespace billow::arch
