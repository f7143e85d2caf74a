// The quantile function of the normal distribution. Pure, thread-safe.
#pragma once

namespace billow::convert {

// Returns the value below which `share` of a distribution with mean 0 and deviation 1 lies. Returns
// minus infinity for a share of 0 or less, and infinity for 1 or more.
double normal_quantile(double share) noexcept;

}  // namespace billow::convert
