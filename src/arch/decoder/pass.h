// What the layers of one forward pass have in common.
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
  // The rotations of the rows by one rope.
  struct Rotations {
    nn::Rope::Rotations at;      // the rows' positions
    nn::Rope::Rotations closed;  // closed_positions
  };

  const nn::Compute& compute;
  kv::Cache* cache;  // null in a sizing pass
  const ModelInfo& model;
  const Batch& batch;
  std::vector<std::vector<std::span<const kv::BlockId>>> blocks;  // [group][sequence]
  bool has_gaps = false;                                          // some sequence has a gap
  std::vector<nn::Gap> gaps;               // [sequence]; empty where no sequence has one
  std::vector<uint32_t> closed_positions;  // of the rows, as if there were no gaps; likewise
  std::vector<Rotations> rotations;        // of each rope
  std::vector<nn::StateRun> runs;          // of the sequences; empty where no layer has states

  tensor::Matrix first_values;  // [n][n_embd], where layers share them

  // The rotations are in the arena of `compute`.
  Pass(const nn::Compute& compute, kv::Cache* cache, const ModelInfo& model, const Batch& batch,
       std::span<const nn::Rope> ropes);
  nn::KvLayer layer(size_t index) const;
  nn::KvRows rows(size_t index) const;
  // The states of a layer, from an offset of floats on.
  nn::StatePart states(size_t index, size_t first_float) const;

 private:
  void find_runs();

  std::vector<nn::StateRun::Stop> stops_;  // of all runs
};

// Multiplies the queries of each row as `temperature` says.
void scale_by_position(const Pass& pass, const Temperature& temperature, tensor::Matrix q);

}  // namespace billow::arch
