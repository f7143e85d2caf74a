#include "nn/plane_rope.h"

#include <cmath>

#include "base/check.h"
#include "nn/for_rows.h"

namespace billow::nn {

PlaneRope::PlaneRope(const PlaneRopeParams& params) : params_(params) {
  BILLOW_CHECK(params.head_len != 0 && params.head_len % 4 == 0);
  const size_t n_half = n_pairs() / 2;
  for (size_t pair = 0; pair < n_pairs(); ++pair) {
    const bool is_second = pair >= n_half;
    const size_t step = 4 * (pair % n_half) + (is_second && params.staggered ? 2 : 0);
    frequencies_.push_back(
        std::pow(params.base, -static_cast<double>(step) / static_cast<double>(params.head_len)));
  }
}

void PlaneRope::angles(uint32_t row, uint32_t col, float* cosines, float* sines) const noexcept {
  for (size_t pair = 0; pair < n_pairs(); ++pair) {
    const bool is_first = pair < n_pairs() / 2;
    const double angle = (is_first == params_.columns_first ? col : row) * frequencies_[pair];
    cosines[pair] = static_cast<float>(std::cos(angle));
    sines[pair] = static_cast<float>(std::sin(angle));
  }
}

void PlaneRope::rotate(const Compute& compute, tensor::Matrix cosines, tensor::Matrix sines,
                       tensor::Matrix x) const {
  using kernels::RopeKind;
  const size_t len = params_.head_len;
  const size_t n_heads = x.n_cols / len;
  const auto& rope = compute.kernels.rope;
  for_rows(compute, x.n_rows, [&](size_t row) {
    float* const values = x.row(row);
    const float* const cos = cosines.row(row);
    const float* const sin = sines.row(row);
    if (params_.pairs != PlanePairs::kHalvesOfHalf) {
      const bool is_adjacent = params_.pairs == PlanePairs::kAdjacent;
      return rope(values, n_heads, len, len, is_adjacent ? RopeKind::kAdjacent : RopeKind::kHalves,
                  cos, sin);
    }
    rope(values, n_heads, len, len / 2, RopeKind::kHalves, cos, sin);
    rope(values + len / 2, n_heads, len, len / 2, RopeKind::kHalves, cos + len / 4, sin + len / 4);
  });
}

}  // namespace billow::nn
