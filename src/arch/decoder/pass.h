// The data that the layers of one forward pass share.
#pragma once

#include <span>
#include <vector>

#include "arch/decoder/style.h"
#include "arch/model.h"
#include "nn/attention.h"
#include "nn/rope.h"
#include "nn/states.h"

namespace billow::arch {

struct Pass {
  // The rotations of all rows by one rope.
  struct Rotations {
    nn::Rope::Rotations at;      // for the rows' positions
    nn::Rope::Rotations closed;  // for closed_positions
  };

  const nn::Compute& compute;
  kv::Cache* cache;  // null in a sizing pass
  const ModelInfo& model;
  const Batch& batch;
  std::vector<std::vector<std::span<const kv::BlockId>>> blocks;  // [group][sequence]
  bool has_gaps = false;                                          // whether a sequence has a gap
  std::vector<nn::Gap> gaps;  // [sequence]; empty if no sequence has a gap
  // Positions of the rows as if there were no gaps; empty if no sequence has a gap.
  std::vector<uint32_t> closed_positions;
  std::vector<nn::GridPosition> closed_grid;  // the same for Batch::grid
  std::vector<Rotations> rotations;           // one for each rope
  std::vector<nn::StateRun> runs;             // one for each sequence; empty if no layer has states

  tensor::Matrix first_values;  // [n][n_embd], if layers share the first layer's values

  // The rotations use the arena of `compute`.
  Pass(const nn::Compute& compute, kv::Cache* cache, const ModelInfo& model, const Batch& batch,
       std::span<const nn::Rope> ropes);
  nn::KvLayer layer(size_t index) const;
  nn::KvRows rows(size_t index) const;
  // Returns the states of a layer, from an offset in floats.
  nn::StatePart states(size_t index, size_t first_float) const;

 private:
  void find_runs();

  std::vector<nn::StateRun::Stop> stops_;  // of all runs
};

// Multiplies the queries of each row by the factor of `temperature`.
void scale_by_position(const Pass& pass, const Temperature& temperature, tensor::Matrix q);

}  // namespace billow::arch
