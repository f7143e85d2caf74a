// The rows of a pass: patches in the order in which attention works, with a class row for each tile
// if the family has one. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "arch/vision/style.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::arch {

struct PictureRow {
  static constexpr uint32_t kNoPatch = std::numeric_limits<uint32_t>::max();
  uint32_t tile = 0;
  uint32_t patch = kNoPatch;  // index in the batch; kNoPatch: a class row
  uint32_t row = 0;           // place in the tile
  uint32_t col = 0;
};

struct PictureRows {
  std::vector<PictureRow> rows;
  std::vector<uint32_t> tile_ends;    // the index after the last row of each tile
  std::vector<uint32_t> window_ends;  // the same for windows; empty: no windows
  // The row of the patch at a place: the element first_patch + row * cols + col of the tile.
  std::vector<uint32_t> row_at;
};

// The place of a token.
struct TokenPlace {
  uint32_t tile = 0;
  uint32_t row = 0;
  uint32_t col = 0;
};

// `window` is the side of windows in patches; 0: none. Windows begin at the tile's upper left
// corner and are cut off at its other sides. REQUIRES: tiles are adjacent, and there are less than
// 2^32 patches.
PictureRows plan_picture_rows(const vision::Rule& rule, std::span<const vision::Tile> tiles,
                              ClassRow class_row, size_t window);

// Returns the places of all tokens, in the order of the result.
std::vector<TokenPlace> plan_tokens(std::span<const vision::Tile> tiles);

}  // namespace billow::arch
