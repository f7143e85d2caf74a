// Computes the size to which an image processor resizes a picture, from the size of the picture.
// Doubles and floats are used exactly where the reference uses them, because results are
// rounded to whole patches. The names of the reference's functions are in the comments. All are
// functions of Hugging Face transformers, models/FAMILY/image_processing_FAMILY.py. Pure functions;
// any thread. REQUIRES: no argument is 0, and sides are at most kMaxSide.
#pragma once

#include <cstdint>

#include "image/picture.h"

namespace billow::vision {

// qwen2_vl, smart_resize: the nearest multiples of `factor` whose product is from min_pixels to
// max_pixels. Throws Error (kInvalidInput) if one side is more than 200 times the other.
image::Size smart_size(image::Size size, uint32_t factor, uint64_t min_pixels, uint64_t max_pixels);

// lfm2_vl, smart_resize: like smart_size(), but each side has at least `factor` pixels before the
// product is compared, and any shape is accepted.
image::Size smart_size_of_any_shape(image::Size size, uint32_t factor, uint64_t min_pixels,
                                    uint64_t max_pixels);

// lfm2_vl, _is_image_too_large: whether the picture is split into tiles.
bool needs_tiles(image::Size size, uint32_t patch_size, uint32_t factor, uint64_t max_pixels);

// gemma4, get_aspect_ratio_preserving_size: the largest size of the same shape with at most
// max_pixels, rounded down to multiples of `factor`. Throws Error (kInvalidInput) if the picture is
// too long and narrow for this.
image::Size budget_size(image::Size size, uint32_t factor, uint64_t max_pixels);

// pixtral, get_resize_output_image_size: reduces the picture to `longest_edge`, then rounds up to
// multiples of `factor`. The reference fails if a side becomes 0; here the side becomes `factor`.
image::Size fitted_size(image::Size size, uint32_t longest_edge, uint32_t factor);

// idefics3, get_resize_output_image_size: the longer side becomes `longest_edge`, at most 4,096.
image::Size stretched_size(image::Size size, uint32_t longest_edge);

// idefics3, resize_for_vision_encoder: rounds up to multiples of `tile_size`.
image::Size tiled_size(image::Size size, uint32_t tile_size);

// Columns and rows of tiles: the grid whose shape is nearest to the picture's. Grids with the same
// distance are compared in the order of their area, then of their width: the later one is taken if
// the picture covers more than half of it. Source: got_ocr2, get_optimal_tiled_canvas;
// lfm2_vl, find_closest_aspect_ratio.
image::Size closest_grid(image::Size size, uint32_t tile_size, uint32_t min_tiles,
                         uint32_t max_tiles);

// llama4, get_best_fit and get_max_res_without_distortion.
struct Canvas {
  image::Size size;    // the picture is resized to this size
  image::Size padded;  // multiples of tile_size
};
Canvas best_canvas(image::Size size, uint32_t tile_size, uint32_t max_tiles);

}  // namespace billow::vision
