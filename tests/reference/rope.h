// Rotary position encoding of the reference: the angles of one position, with every scaling that
// GGUF files name. Computed in double from the formulas; nothing is stepped or tabulated. Pure
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace billow::reference {

struct Rope {
  uint64_t n_rot = 0;     // leading elements of a head that rotate; the rest pass
  bool adjacent = false;  // rotates (2i, 2i+1); false: (i, i + n_rot/2)
  double base = 10000;
  double factor = 1;       // positions are divided by it
  double ramp_weight = 0;  // YaRN: 1, no YaRN: 0
  double beta_fast = 32;   // YaRN: pairs that turn more often than this in the original
  double beta_slow = 1;    // context keep their speed, those below beta_slow are divided
  double n_context_original = 0;
  double amplitude = 1;              // of the rotated vector
  std::vector<float> divisors = {};  // n_rot/2 divisors of the frequencies, or empty
};

// The angle of pair `pair` at `position`, in radians.
double rope_angle(const Rope& rope, uint64_t pair, uint64_t position);

// Rotates one head in place. `head` has at least n_rot elements.
void rotate(const Rope& rope, uint64_t position, float* head);

}  // namespace billow::reference
