#include "convert/normal_quantile.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace billow::convert {

double normal_quantile(double share) noexcept {
  if (!(share > 0)) return -std::numeric_limits<double>::infinity();
  if (share >= 1) return std::numeric_limits<double>::infinity();
  // Newton's method on the distribution function. The steps are limited to 1, because they are too
  // long in the tails.
  double x = 0;
  for (int i = 0; i < 200; ++i) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    if (below == share || density == 0) break;
    double step = (below - share) / density;
    if (step > 1) step = 1;
    if (step < -1) step = -1;
    x -= step;
    if (std::abs(step) < 1e-15) break;
  }
  return x;
}

}  // namespace billow::convert
