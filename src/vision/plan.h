// Plans the processing of a picture from its size alone: the sizes of its copies, the tiles for the
// encoder, the number of tokens, and the text around them. Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "image/picture.h"
#include "vision/rule.h"

namespace billow::vision {

// One resized copy of the picture. It is cut into rows x cols tiles of the same size.
struct View {
  image::Size size;    // the picture is resized to this size, whatever its shape
  image::Size canvas;  // black pixels on the right and below fill up this size
  uint32_t rows = 1;   // 0: no tiles; the view is only the source of the next view
  uint32_t cols = 1;
  bool from_previous = false;  // resized from the previous view, not from the picture
};

// One picture for the encoder.
struct Tile {
  image::Size size;         // pixels
  uint32_t rows = 0;        // patches
  uint32_t cols = 0;        // patches
  size_t first_patch = 0;   // among the patches of all tiles
  uint32_t token_rows = 0;  // embeddings after the projector, which keep the shape of the tile
  uint32_t token_cols = 0;

  size_t n_tokens() const noexcept { return size_t{token_rows} * token_cols; }
};

// A part of the chat text: either text, in which special tokens are parsed, or the next `n_tokens`
// rows of embeddings.
struct Piece {
  std::string text;
  size_t n_tokens = 0;
  bool operator==(const Piece&) const = default;
};

struct Plan {
  std::vector<View> views;
  std::vector<Tile> tiles;    // in the order of views, then rows, then columns
  std::vector<Piece> pieces;  // replace the family's placeholder; tokens are in the order of tiles
  size_t n_patches = 0;       // of all tiles
  size_t n_tokens = 0;        // of all tiles, without the tokens of texts
};

inline constexpr uint64_t kMaxTilePixels = 1 << 24;  // of all tiles; 12 bytes each as floats
inline constexpr uint64_t kMaxTiles = 1024;

// Returns the max number of tokens of a tile.
size_t max_tile_tokens(const Rule& rule) noexcept;

// Returns the plan of a picture. Throws Error: kInvalidInput for no pixels or a shape that the
// family's processor refuses, kTooLarge beyond the limits above or those of resize.h.
Plan plan_of(const Rule& rule, image::Size picture);

// Returns the pieces of a picture in a text without a placeholder: Plan::pieces, with the text that
// the chat template writes around them.
std::vector<Piece> pieces_in_text(const Rule& rule, const Plan& plan);

}  // namespace billow::vision
