// How many positions of a context a picture takes, by its size and what a model does with it. Pure
// arithmetic; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

// How a model makes rows of a picture. A row stands for a square of `cell` x `cell` pixels.
struct PictureRule {
  enum class Kind : uint8_t {
    kSquare,  // each picture becomes a square of `edge` pixels
    kScaled,  // a picture keeps its shape, and has min_rows to max_rows
    kTiled,   // squares of `edge` pixels: the whole, and up to max_tiles parts of a larger picture
  };
  Kind kind = Kind::kSquare;
  size_t cell = 1;
  size_t edge = 1;
  size_t min_rows = 0;  // of kTiled: the pixels to which the longer side is scaled; 0: it is not
  size_t max_rows = 0;
  size_t max_tiles = 0;
  bool operator==(const PictureRule&) const = default;
};

// Tokens that mark the beginning and the end of a picture or a tile.
inline constexpr size_t kPictureMarkers = 8;

// The most positions that such a picture takes, with the tokens that mark it; of tiles about the
// most. Ends at the greatest number instead of wrapping.
size_t max_rows(const PictureRule& rule, uint64_t width, uint64_t height) noexcept;

}  // namespace billow::context
