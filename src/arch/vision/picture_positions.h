// The learned position embeddings of a picture encoder (v.position_embd). Immutable after loading;
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "arch/vision/picture_rows.h"
#include "arch/vision/style.h"
#include "arch/weights.h"
#include "tensor/tensor.h"
#include "vision/plan.h"
#include "vision/rule.h"

namespace billow::arch {

// A part of an embedding: an index on an axis of the grid, and its share.
struct AxisTap {
  uint32_t index = 0;
  float weight = 1.0f;
};
using AxisTaps = std::vector<std::vector<AxisTap>>;  // for each place on the axis of the tile

// The parts for `n` places when a grid with n_grid places is resized. PositionKind is kResized or
// kStretched. Pure. REQUIRES: n and n_grid are not 0.
AxisTaps resized_taps(PositionKind kind, size_t n_grid, size_t n);

class PicturePositions {
 public:
  // Throws Error that names the tensor if it is missing or of the wrong shape.
  void load(const WeightLoader& load, const PictureStyle& style, const vision::Rule& rule);
  // Throws Error (kTooLarge) if a tile of this shape has places without an embedding.
  void check(const vision::Tile& tile) const;

  explicit operator bool() const noexcept { return kind_ != PositionKind::kNone; }

  struct Taps {
    AxisTaps rows;
    AxisTaps cols;
  };
  // Returns the taps of a tile. REQUIRES: check() accepts the tile.
  Taps taps_of(const vision::Tile& tile) const;
  // Adds the embedding of a row of the pass to x, [n_embd]. `scratch` has n_embd floats.
  void add(const PictureRow& row, const Taps& taps, float* scratch, float* x) const;

 private:
  void add_row(const tensor::Tensor& table, size_t index, float weight, float* scratch,
               float* x) const;

  PositionKind kind_ = PositionKind::kNone;
  size_t n_side_ = 0;         // places on a side of the grid, or on an axis
  size_t first_ = 0;          // index of the first place in the table
  size_t class_index_ = 0;    // index of the class row in the table
  tensor::Tensor table_;      // [n][n_embd]
  tensor::Tensor row_table_;  // kAxes: [n][n_embd] for rows; table_ is for columns
};

}  // namespace billow::arch
