#include "arch/alibi.h"

#include <cmath>

namespace billow::arch {

std::vector<float> alibi_slopes(size_t n_heads, float max_bias) {
  size_t power = 1;
  while (2 * power <= n_heads) power *= 2;
  std::vector<float> slopes;
  for (size_t h = 0; h < n_heads; ++h) {
    const double exponent =
        h < power ? static_cast<double>(h + 1) : static_cast<double>(2 * (h - power) + 1) / 2.0;
    slopes.push_back(static_cast<float>(
        std::exp2(-static_cast<double>(max_bias) * exponent / static_cast<double>(power))));
  }
  return slopes;
}

}  // namespace billow::arch
