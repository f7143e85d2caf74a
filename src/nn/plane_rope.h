// Rotary position embedding for places in a plane: one half of the pairs of a head rotates by the
// row, the other half by the column. The frequencies are computed once, when a model is loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

enum class PlanePairs : uint8_t {
  kAdjacent,      // values 2i and 2i + 1
  kHalves,        // values i and i + head_len / 2
  kHalvesOfHalf,  // within each half of the head: values i and i + head_len / 4
};

struct PlaneRopeParams {
  PlanePairs pairs = PlanePairs::kHalves;
  size_t head_len = 0;  // a multiple of 4
  double base = 10000.0;
  bool columns_first = false;  // the first half of the pairs rotates by the column
  // Pair i of a half has the frequency base^(-4i / head_len). If this is true, the frequencies of
  // the second half are between those of the first: base^(-(4i + 2) / head_len).
  bool staggered = false;
};

class PlaneRope {
 public:
  // REQUIRES: head_len is a multiple of 4.
  explicit PlaneRope(const PlaneRopeParams& params);

  size_t n_pairs() const noexcept { return params_.head_len / 2; }
  // Writes cos and sin of the n_pairs() angles of a place.
  void angles(uint32_t row, uint32_t col, float* cosines, float* sines) const noexcept;
  // Rotates each head of each row of x in place. `cosines` and `sines` are [x.n_rows][n_pairs()].
  void rotate(const Compute& compute, tensor::Matrix cosines, tensor::Matrix sines,
              tensor::Matrix x) const;

 private:
  PlaneRopeParams params_;
  std::vector<double> frequencies_;  // [n_pairs()]
};

}  // namespace billow::nn
