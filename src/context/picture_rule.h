// Calculates how many positions of a context a picture takes, from its size and the model's rule.
// Pure arithmetic; thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace billow::context {

// How a model converts a picture to rows. A row covers a square of `cell` x `cell` pixels.
struct PictureRule {
  enum class Kind : uint8_t {
    kSquare,  // each picture is scaled to a square of `edge` pixels
    kScaled,  // a picture keeps its aspect ratio, and has min_rows to max_rows rows
    kTiled,   // squares of `edge` pixels: the whole picture, and up to max_tiles parts of it
  };
  Kind kind = Kind::kSquare;
  size_t cell = 1;
  size_t edge = 1;
  size_t min_rows = 0;  // kTiled: the longer side is scaled to this many pixels; 0: not scaled
  size_t max_rows = 0;
  size_t max_tiles = 0;
  bool operator==(const PictureRule&) const = default;
};

// Max number of tokens that mark the beginning and the end of a picture or a tile.
inline constexpr size_t kPictureMarkers = 8;

// Returns the max number of positions that a picture of this size takes, with its marker tokens.
// For tiles the number is approximate. Saturates instead of wrapping.
size_t max_rows(const PictureRule& rule, uint64_t width, uint64_t height) noexcept;

}  // namespace billow::context
