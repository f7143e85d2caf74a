// The point below which a share of a normal distribution lies. Pure; any thread.
#pragma once

namespace billow::convert {

// Of mean 0 and deviation 1. Minus infinity for 0 and less, infinity for 1 and more.
double normal_quantile(double share) noexcept;

}  // namespace billow::convert
