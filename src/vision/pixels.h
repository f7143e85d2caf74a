// Turns a picture into the input of a vision encoder: resizes, cuts into tiles and patches, and
// normalises. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "image/picture.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::vision {

struct Pixels {
  Plan plan;
  // [n_patches][3][patch_size][patch_size]: channel, row, column. A row of the patch embedding's
  // matrix in the GGUF file has the same order, so that the embedding is one matrix product.
  // The patches of a tile are in rows from the top. For families that merge patches (Qwen), they
  // are in blocks of merge x merge patches instead: rows of blocks, and rows within a block.
  std::vector<float> patches;
};

// The place of a patch in its tile.
struct PatchPlace {
  uint32_t row = 0;
  uint32_t col = 0;
};

// Returns the place of a tile's patch `i`, which is within 0 .. rows * cols - 1.
PatchPlace place_of_patch(const Rule& rule, const Tile& tile, size_t i) noexcept;

// Throws the errors of plan_of(). REQUIRES: picture.rgb has 3 bytes for each pixel.
Pixels preprocess(const Rule& rule, const image::Picture& picture);

}  // namespace billow::vision
