// The random numbers of one sequence: xoshiro256++ by Blackman and Vigna (2019, "Scrambled linear
// pseudorandom number generators", ACM TOMS 47(4), arXiv 1805.01407), seeded with splitmix64 as its
// authors recommend. Uses integer arithmetic only. So the same seed gives the same numbers with
// every compiler and on every machine; the distributions of the standard library do not guarantee
// that. A plain value; copies continue independently.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

namespace billow::engine {

class Random {
 public:
  using State = std::array<uint64_t, 4>;

  explicit Random(uint64_t seed) noexcept {
    for (uint64_t& word : state_) word = split_mix(seed);
  }
  // Continues from a given state. REQUIRES: not all elements are zero.
  explicit Random(const State& state) noexcept : state_(state) {}

  uint64_t next() noexcept {
    const uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
    const uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  // Returns a uniform number in [0, 1): the upper 53 bits, which a double can hold.
  double uniform() noexcept { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

 private:
  static uint64_t split_mix(uint64_t& state) noexcept {
    state += 0x9E3779B97F4A7C15u;
    uint64_t mixed = state;
    mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
    return mixed ^ (mixed >> 31);
  }

  State state_{};
};

}  // namespace billow::engine
