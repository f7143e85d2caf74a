#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "nn/for_rows.h"

namespace billow::nn {
namespace {

// Returns the pair whose wavelength fits `rotations` times into the original context: Peng et al.,
// arXiv 2309.00071, (17).
double yarn_corner(const RopeParams& params, double rotations) {
  return params.n_rot * std::log(params.original_context / (rotations * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(params.base));
}

double yarn_frequency(const RopeParams& params, double frequency, size_t pair) {
  const double start = std::max(0.0, std::floor(yarn_corner(params, params.beta_fast)));
  const double end = std::min(params.n_rot - 1.0, std::ceil(yarn_corner(params, params.beta_slow)));
  const double along = (static_cast<double>(pair) - start) / std::max(0.001, end - start);
  const double mix = (1.0 - std::clamp(along, 0.0, 1.0)) * params.extrapolation;
  return frequency / params.factor * (1.0 - mix) + frequency * mix;
}

std::vector<double> frequencies_of(const RopeParams& params, const float* divisors) {
  std::vector<double> frequencies;
  for (size_t pair = 0; pair < params.n_rot / 2; ++pair) {
    double frequency = std::pow(params.base, -2.0 * static_cast<double>(pair) / params.n_rot);
    if (divisors != nullptr) frequency /= static_cast<double>(divisors[pair]);
    if (params.scaling == RopeScaling::kLinear) frequency /= params.factor;
    if (params.scaling == RopeScaling::kYarn) frequency = yarn_frequency(params, frequency, pair);
    frequencies.push_back(frequency);
  }
  return frequencies;
}

uint32_t along(const GridPosition& position, RopeAxis axis) {
  if (axis == RopeAxis::kTime) return position.time;
  return axis == RopeAxis::kRow ? position.row : position.column;
}

}  // namespace

Rope::Rope(const RopeParams& params)
    : kind_(params.kind),
      frequencies_(frequencies_of(params, params.divisors)),
      axes_(params.axes),
      amplitude_(params.attention_factor) {
  if (params.long_divisors != nullptr)
    long_frequencies_ = frequencies_of(params, params.long_divisors);
  if (params.scaling != RopeScaling::kYarn || params.factor <= 1.0) return;
  const double log = 0.1 * std::log(params.factor);
  amplitude_ *= (1.0 + log) / (1.0 + params.yarn_log_multiplier * log);
}

Rope::Rotations Rope::rotations(const Compute& compute, std::span<const uint32_t> positions,
                                std::span<const uint8_t> in_long_text,
                                std::span<const GridPosition> grid) const {
  const size_t n_pairs = frequencies_.size();
  auto* cosines = compute.arena.array<float>(positions.size() * n_pairs);
  auto* sines = compute.arena.array<float>(positions.size() * n_pairs);
  if (compute.sizing != nullptr) return {this, cosines, sines};
  const bool uses_grid = !axes_.empty() && !grid.empty();
  constexpr size_t kRowsAtOnce = 16;
  compute.team.for_pieces(positions.size(), kRowsAtOnce, [&](size_t begin, size_t end, int) {
    for (size_t row = begin; row < end; ++row) {
      const bool is_long =
          !long_frequencies_.empty() && !in_long_text.empty() && in_long_text[row] != 0;
      const std::vector<double>& frequencies = is_long ? long_frequencies_ : frequencies_;
      for (size_t pair = 0; pair < n_pairs; ++pair) {
        const uint32_t position = uses_grid ? along(grid[row], axes_[pair]) : positions[row];
        const double angle = position * frequencies[pair];
        cosines[row * n_pairs + pair] = static_cast<float>(std::cos(angle) * amplitude_);
        sines[row * n_pairs + pair] = static_cast<float>(std::sin(angle) * amplitude_);
      }
    }
  });
  return {this, cosines, sines};
}

void rotate(const Compute& compute, const Rope::Rotations& rotations, tensor::Matrix x,
            size_t head_len) {
  const size_t n_pairs = rotations.rope->n_rot() / 2;
  for_rows(compute, x.n_rows, [&](size_t row) {
    compute.kernels.rope(x.row(row), x.n_cols / head_len, head_len, 2 * n_pairs,
                         rotations.rope->kind(), rotations.cosines + row * n_pairs,
                         rotations.sines + row * n_pairs);
  });
}

}  // namespace billow::nn
