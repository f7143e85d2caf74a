// Rotary position embedding (Su et al., arXiv 2104.09864) and its scalings. The frequencies of a
// model are computed once, when it is loaded. The rotations of a batch are computed once for all
// layers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "nn/compute.h"
#include "tensor/tensor.h"

namespace billow::nn {

enum class RopeScaling : uint8_t { kNone, kLinear, kYarn };

// The three positions of a token (M-RoPE: Wang et al., arXiv 2409.12191). The tokens of a picture
// have the same time, and the row and the column of their place in it. Text has three equal
// positions.
struct GridPosition {
  uint32_t time = 0;
  uint32_t row = 0;
  uint32_t column = 0;
  bool operator==(const GridPosition&) const = default;
};

// The position by which a pair of values rotates.
enum class RopeAxis : uint8_t { kTime, kRow, kColumn };

struct RopeParams {
  kernels::RopeKind kind = kernels::RopeKind::kAdjacent;
  uint32_t n_rot = 0;  // leading values of a head that rotate; even
  double base = 10000.0;
  RopeScaling scaling = RopeScaling::kNone;
  double factor = 1.0;               // divides positions (linear, YaRN)
  double original_context = 0.0;     // YaRN: positions that the model was trained with
  double extrapolation = 1.0;        // YaRN: share of the frequency-wise mix
  double attention_factor = 1.0;     // multiplies the amplitude
  double yarn_log_multiplier = 0.0;  // YaRN: the amplitude's growth that the model omits
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  // [n_rot / 2], one for each frequency (Llama 3, LongRoPE), or null
  const float* divisors = nullptr;
  // LongRoPE: `divisors` for long texts
  const float* long_divisors = nullptr;
  std::vector<RopeAxis> axes = {};  // [n_rot / 2]; empty: tokens have one position
};

// The angle per position of each pair, and the amplitude.
class Rope {
 public:
  Rope() = default;
  explicit Rope(const RopeParams& params);

  // cos and sin of each row's angles, times the amplitude. Both are [positions.size()][n_rot / 2],
  // in the arena. `in_long_text`: which rows belong to a long text; empty: none. `grid`: the
  // positions of all rows for a rope with axes; empty: the rows have `positions` only.
  struct Rotations {
    const Rope* rope = nullptr;
    const float* cosines = nullptr;
    const float* sines = nullptr;
  };
  Rotations rotations(const Compute& compute, std::span<const uint32_t> positions,
                      std::span<const uint8_t> in_long_text = {},
                      std::span<const GridPosition> grid = {}) const;

  kernels::RopeKind kind() const noexcept { return kind_; }
  size_t n_rot() const noexcept { return 2 * frequencies_.size(); }
  std::span<const double> frequencies() const noexcept { return frequencies_; }
  double amplitude() const noexcept { return amplitude_; }
  bool has_axes() const noexcept { return !axes_.empty(); }

 private:
  kernels::RopeKind kind_ = kernels::RopeKind::kAdjacent;
  std::vector<double> frequencies_;
  std::vector<double> long_frequencies_;  // for rows in long texts; empty: the same as frequencies_
  std::vector<RopeAxis> axes_;            // [pair]; empty: tokens have one position
  double amplitude_ = 1.0;
};

// Rotates each head of each row of x in place; x.n_cols is a multiple of head_len.
void rotate(const Compute& compute, const Rope::Rotations& rotations, tensor::Matrix x,
            size_t head_len);

}  // namespace billow::nn
