// The views of each family: how often and to what sizes a picture is resized, and how it is cut.
// The functions of sizes.h compute the sizes. Pure functions; any thread.
#pragma once

#include <vector>

#include "image/picture.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::vision {

// gemma3: one square of image_size. Pan and scan is off, as in published models.
std::vector<View> fixed_view(const Rule& rule, image::Size picture);
// gemma4.
std::vector<View> budget_view(const Rule& rule, image::Size picture);
// qwen2_vl, qwen2_5_vl, qwen3_vl, qwen3_5.
std::vector<View> smart_view(const Rule& rule, image::Size picture);
// pixtral, mistral3.
std::vector<View> fitted_view(const Rule& rule, image::Size picture);
// idefics3, smolvlm: resizes twice and cuts into tiles, then resizes the tiled picture to one tile.
std::vector<View> idefics3_views(const Rule& rule, image::Size picture);
// lfm2_vl: a large picture gives tiles and a thumbnail; any other picture is only resized.
std::vector<View> lfm2_views(const Rule& rule, image::Size picture);
// internvl (transformers' GotOcr2ImageProcessor): tiles and a thumbnail, or one tile.
std::vector<View> internvl_views(const Rule& rule, image::Size picture);
// llama4: tiles of a canvas that keeps the shape of the picture, then the whole; or one tile.
std::vector<View> llama4_views(const Rule& rule, image::Size picture);

}  // namespace billow::vision
