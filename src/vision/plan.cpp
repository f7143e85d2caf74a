#include "vision/plan.h"

#include <algorithm>
#include <string>

#include "base/error.h"
#include "vision/family.h"
#include "vision/resize.h"

namespace billow::vision {
namespace {

using image::Size;

// Checks all sizes before any allocation for pixels.
void check_views(const std::vector<View>& views, Size picture) {
  Size source = picture;
  uint64_t n_pixels = 0;
  uint64_t n_tiles = 0;
  for (const View& view : views) {
    check_resize(view.from_previous ? source : picture, view.size);
    check_resize(view.size, view.canvas);
    source = view.canvas;
    n_tiles += uint64_t{view.rows} * view.cols;
    if (view.rows > 0) n_pixels += uint64_t{view.canvas.width} * view.canvas.height;
  }
  if (n_pixels > kMaxTilePixels || n_tiles > kMaxTiles)
    throw Error(ErrorCode::kTooLarge,
                "the picture of " + std::to_string(picture.width) + " x " +
                    std::to_string(picture.height) + " pixels becomes " + std::to_string(n_tiles) +
                    " tiles of " + std::to_string(n_pixels) + " pixels together, more than " +
                    std::to_string(kMaxTiles) + " tiles or " + std::to_string(kMaxTilePixels) +
                    " pixels: reduce its size");
}

}  // namespace

size_t max_tile_tokens(const Rule& rule) noexcept {
  const uint64_t token = rule.token_size();
  const auto of_square = [token](uint64_t side) {
    const uint64_t n = (side + token - 1) / token;
    return n * n;
  };
  return static_cast<size_t>(std::max(
      {of_square(rule.image_size), of_square(rule.tile_size), rule.max_pixels / (token * token)}));
}

Plan plan_of(const Rule& rule, Size picture) {
  if (picture.width == 0 || picture.height == 0)
    throw Error(ErrorCode::kInvalidInput, "the picture has no pixels");
  if (picture.width > kMaxSide || picture.height > kMaxSide)
    throw Error(ErrorCode::kTooLarge, "the picture has " + std::to_string(picture.width) + " x " +
                                          std::to_string(picture.height) +
                                          " pixels; a side may have at most " +
                                          std::to_string(kMaxSide));
  Plan plan;
  plan.views = rule.family->views(rule, picture);
  check_views(plan.views, picture);
  for (const View& view : plan.views) {
    for (uint32_t i = 0; i < view.rows * view.cols; ++i) {
      const Size size{view.canvas.width / view.cols, view.canvas.height / view.rows};
      const Tile tile{.size = size,
                      .rows = size.height / rule.patch_size,
                      .cols = size.width / rule.patch_size,
                      .first_patch = plan.n_patches,
                      .token_rows = size.height / rule.token_size(),
                      .token_cols = size.width / rule.token_size()};
      plan.tiles.push_back(tile);
      plan.n_patches += size_t{tile.rows} * tile.cols;
      plan.n_tokens += tile.n_tokens();
    }
  }
  plan.pieces = rule.family->pieces(plan);
  return plan;
}

std::vector<Piece> pieces_in_text(const Rule& rule, const Plan& plan) {
  std::vector<Piece> pieces = plan.pieces;
  const auto add = [&](std::string_view text, bool at_end) {
    if (text.empty()) return;
    const auto place = at_end ? pieces.end() : pieces.begin();
    pieces.insert(place, Piece{.text = std::string(text)});
  };
  add(rule.family->before, false);
  add(rule.family->after, true);
  return pieces;
}

}  // namespace billow::vision
