#include "vision/views.h"

#include "vision/sizes.h"

namespace billow::vision {
namespace {

using image::Size;

View whole(Size size) { return {.size = size, .canvas = size}; }

View square_tiles(Size size, uint32_t tile_size) {
  return {.size = size,
          .canvas = size,
          .rows = size.height / tile_size,
          .cols = size.width / tile_size};
}

}  // namespace

std::vector<View> fixed_view(const Rule& rule, Size /*picture*/) {
  return {whole({rule.image_size, rule.image_size})};
}

std::vector<View> budget_view(const Rule& rule, Size picture) {
  return {whole(budget_size(picture, rule.token_size(), rule.max_pixels))};
}

std::vector<View> smart_view(const Rule& rule, Size picture) {
  return {whole(smart_size(picture, rule.token_size(), rule.min_pixels, rule.max_pixels))};
}

std::vector<View> fitted_view(const Rule& rule, Size picture) {
  return {whole(fitted_size(picture, rule.image_size, rule.token_size()))};
}

std::vector<View> idefics3_views(const Rule& rule, Size picture) {
  View stretched = whole(stretched_size(picture, rule.longest_edge));
  View tiles = square_tiles(tiled_size(stretched.size, rule.tile_size), rule.tile_size);
  stretched.rows = stretched.cols = 0;
  tiles.from_previous = true;
  if (tiles.rows * tiles.cols == 1) return {stretched, tiles};
  View global = whole({rule.tile_size, rule.tile_size});
  global.from_previous = true;
  return {stretched, tiles, global};
}

std::vector<View> lfm2_views(const Rule& rule, Size picture) {
  const View thumbnail =
      whole(smart_size_of_any_shape(picture, rule.token_size(), rule.min_pixels, rule.max_pixels));
  if (rule.max_tiles == 1 ||
      !needs_tiles(picture, rule.patch_size, rule.token_size(), rule.max_pixels))
    return {thumbnail};
  const Size grid = closest_grid(picture, rule.tile_size, rule.min_tiles, rule.max_tiles);
  const View tiles =
      square_tiles({grid.width * rule.tile_size, grid.height * rule.tile_size}, rule.tile_size);
  if (tiles.rows * tiles.cols == 1) return {tiles};
  return {tiles, thumbnail};
}

std::vector<View> internvl_views(const Rule& rule, Size picture) {
  const Size grid = closest_grid(picture, rule.tile_size, rule.min_tiles, rule.max_tiles);
  const View tiles =
      square_tiles({grid.width * rule.tile_size, grid.height * rule.tile_size}, rule.tile_size);
  if (tiles.rows * tiles.cols == 1) return {tiles};
  return {tiles, whole({rule.tile_size, rule.tile_size})};
}

std::vector<View> llama4_views(const Rule& rule, Size picture) {
  const Canvas canvas = best_canvas(picture, rule.tile_size, rule.max_tiles);
  View tiles = square_tiles(canvas.padded, rule.tile_size);
  tiles.size = canvas.size;
  if (tiles.rows * tiles.cols == 1) return {tiles};
  return {tiles, whole({rule.tile_size, rule.tile_size})};
}

}  // namespace billow::vision
