#include "arch/vision/picture_rows.h"

#include "base/check.h"
#include "vision/pixels.h"

namespace billow::arch {
namespace {

// Appends the patches of a tile. `windows` has the patches of each window.
void append(PictureRows& plan, const std::vector<std::vector<PictureRow>>& windows) {
  for (const std::vector<PictureRow>& window : windows) {
    plan.rows.insert(plan.rows.end(), window.begin(), window.end());
    plan.window_ends.push_back(static_cast<uint32_t>(plan.rows.size()));
  }
}

}  // namespace

PictureRows plan_picture_rows(const vision::Rule& rule, std::span<const vision::Tile> tiles,
                              ClassRow class_row, size_t window) {
  PictureRows plan;
  size_t n_patches = 0;
  for (size_t index = 0; index < tiles.size(); ++index) {
    const vision::Tile& tile = tiles[index];
    const size_t n = size_t{tile.rows} * tile.cols;
    const auto tile_index = static_cast<uint32_t>(index);
    BILLOW_CHECK(tile.first_patch == n_patches && n != 0);
    if (class_row == ClassRow::kFirst) plan.rows.push_back({.tile = tile_index});
    const size_t side = window == 0 ? 0 : (tile.cols + window - 1) / window;
    std::vector<std::vector<PictureRow>> windows(
        window == 0 ? 0 : side * ((tile.rows + window - 1) / window));
    for (size_t i = 0; i < n; ++i) {
      const vision::PatchPlace place = vision::place_of_patch(rule, tile, i);
      const PictureRow row = {.tile = tile_index,
                              .patch = static_cast<uint32_t>(n_patches + i),
                              .row = place.row,
                              .col = place.col};
      if (window == 0)
        plan.rows.push_back(row);
      else
        windows[place.row / window * side + place.col / window].push_back(row);
    }
    append(plan, windows);
    if (class_row == ClassRow::kLast) plan.rows.push_back({.tile = tile_index});
    plan.tile_ends.push_back(static_cast<uint32_t>(plan.rows.size()));
    n_patches += n;
  }
  plan.row_at.resize(n_patches);
  for (size_t i = 0; i < plan.rows.size(); ++i) {
    const PictureRow& row = plan.rows[i];
    if (row.patch == PictureRow::kNoPatch) continue;
    const vision::Tile& tile = tiles[row.tile];
    plan.row_at[tile.first_patch + size_t{row.row} * tile.cols + row.col] =
        static_cast<uint32_t>(i);
  }
  return plan;
}

std::vector<TokenPlace> plan_tokens(std::span<const vision::Tile> tiles) {
  std::vector<TokenPlace> tokens;
  for (size_t tile = 0; tile < tiles.size(); ++tile)
    for (uint32_t row = 0; row < tiles[tile].token_rows; ++row)
      for (uint32_t col = 0; col < tiles[tile].token_cols; ++col)
        tokens.push_back({static_cast<uint32_t>(tile), row, col});
  return tokens;
}

}  // namespace billow::arch
