// Rotary position embedding (Su et al., arXiv 2104.09864) and its scalings: the frequencies of a
// model are worked out once at load, the rotations of a batch once for all its layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

struct RopeParams {
  kernels::RopeKind kind = kernels::RopeKind::kAdjacent;
  uint32_t n_rot = 0;  // leading values of a head that rotate; even
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;               // positions are divided by it (linear, YaRN)
  double original_context = 0.0;     // YaRN: positions that the model was trained with
  double extrapolation = 1.0;        // YaRN: share of the frequency-wise mix
  double attention_factor = 1.0;     // multiplies the amplitude
  double yarn_log_multiplier = 0.0;  // YaRN: the amplitude's growth that the model leaves out
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  const float* divisors = nullptr;  // [n_rot / 2], of each frequency (Llama 3, LongRoPE), or null
  const float* long_divisors = nullptr;  // LongRoPE: the same for long texts
};

// The angle per position and the amplitude of each pair.
class Rope {
 public:
  Rope() = default;
  explicit Rope(const RopeParams& params);

  // cos and sin of each row's angles, times the amplitude. Both [positions.size()][n_rot / 2], in
  // the arena. `in_long_text`: which rows stand in a long text; empty: none.
  struct Rotations {
    const Rope* rope = nullptr;
    const float* cosines = nullptr;
    const float* sines = nullptr;
  };
  Rotations rotations(const Compute& compute, std::span<const uint32_t> positions,
                      std::span<const uint8_t> in_long_text = {}) const;

  kernels::RopeKind kind() const noexcept { return kind_; }
  size_t n_rot() const noexcept { return 2 * frequencies_.size(); }
  std::span<const double> frequencies() const noexcept { return frequencies_; }
  double amplitude() const noexcept { return amplitude_; }

 private:
  kernels::RopeKind kind_ = kernels::RopeKind::kAdjacent;
  std::vector<double> frequencies_;
  std::vector<double> long_frequencies_;  // of rows in long texts; empty: as others
  double amplitude_ = 1.0;
};

// Rotates each head of each row of x in place; x.n_cols is a multiple of head_len.
void rotate(const Compute& compute, const Rope::Rotations& rotations, tensor::Matrix x,
            size_t head_len);

}  // namespace billow::nn
