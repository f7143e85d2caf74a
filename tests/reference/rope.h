// Rotary position encoding of the reference, with every scaling that GGUF files can name. Each
// angle is computed in double from its formula, without tables or recurrences. Pure functions;
// thread-safe.
#pragma once

#include <cstdint>
#include <vector>

namespace billow::reference {

struct Rope {
  uint64_t n_rot = 0;     // leading elements of a head that rotate; the others do not change
  bool adjacent = false;  // rotates (2i, 2i+1); false: (i, i + n_rot/2)
  double base = 10000;
  double factor = 1;       // divisor of positions
  double ramp_weight = 0;  // YaRN: 1, no YaRN: 0
  double beta_fast = 32;   // YaRN: pairs with more turns in the original context
  double beta_slow = 1;    // are not divided; pairs with fewer than beta_slow are
  double n_context_original = 0;
  double amplitude = 1;              // factor of the rotated vector
  std::vector<float> divisors = {};  // n_rot/2 divisors of the frequencies, or empty
};

// Returns the angle of pair `pair` at `position`, in radians.
double rope_angle(const Rope& rope, uint64_t pair, uint64_t position);

// Rotates one head in place. `head` has at least n_rot elements.
void rotate(const Rope& rope, uint64_t position, float* head);

}  // namespace billow::reference
