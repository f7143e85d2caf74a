#include "reference/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace billow::reference {
namespace {

// Returns the (fractional) pair that makes `turns` full turns within the original context.
double pair_of_turns(const Rope& rope, double turns) {
  const double n = static_cast<double>(rope.n_rot);
  return n * std::log(rope.n_context_original / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

// Returns YaRN's share of the undivided frequency: 1 for fast pairs, 0 for slow ones, a ramp
// between.
double undivided_share(const Rope& rope, uint64_t pair) {
  if (rope.ramp_weight == 0) return 0;
  const double last = static_cast<double>(rope.n_rot) - 1;
  const double start = std::max(0.0, std::floor(pair_of_turns(rope, rope.beta_fast)));
  const double end = std::min(last, std::ceil(pair_of_turns(rope, rope.beta_slow)));
  const double along = (static_cast<double>(pair) - start) / std::max(0.001, end - start);
  return rope.ramp_weight * (1 - std::clamp(along, 0.0, 1.0));
}

}  // namespace

double rope_angle(const Rope& rope, uint64_t pair, uint64_t position) {
  const double exponent = -2 * static_cast<double>(pair) / static_cast<double>(rope.n_rot);
  double angle = static_cast<double>(position) * std::pow(rope.base, exponent);
  if (!rope.divisors.empty()) angle /= static_cast<double>(rope.divisors[pair]);
  const double share = undivided_share(rope, pair);
  return angle / rope.factor * (1 - share) + angle * share;
}

void rotate(const Rope& rope, uint64_t position, float* head) {
  const uint64_t n_pairs = rope.n_rot / 2;
  for (uint64_t i = 0; i < n_pairs; ++i) {
    const double angle = rope_angle(rope, i, position);
    const double c = std::cos(angle) * rope.amplitude;
    const double s = std::sin(angle) * rope.amplitude;
    float& first = rope.adjacent ? head[2 * i] : head[i];
    float& second = rope.adjacent ? head[2 * i + 1] : head[i + n_pairs];
    const double a = static_cast<double>(first);
    const double b = static_cast<double>(second);
    first = static_cast<float>(a * c - b * s);
    second = static_cast<float>(a * s + b * c);
  }
}

}  // namespace billow::reference
