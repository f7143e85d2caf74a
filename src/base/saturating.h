// Arithmetic that stops at the max or min value instead of wrapping, for sizes from untrusted
// input.
#pragma once

#include <cstdint>
#include <limits>

namespace billow {

constexpr uint64_t saturating_add(uint64_t a, uint64_t b) {
  return a > std::numeric_limits<uint64_t>::max() - b ? std::numeric_limits<uint64_t>::max()
                                                      : a + b;
}

constexpr uint64_t saturating_multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > std::numeric_limits<uint64_t>::max() / b
             ? std::numeric_limits<uint64_t>::max()
             : a * b;
}

// Returns a - b, or 0 if b is larger.
constexpr uint64_t saturating_subtract(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace billow
