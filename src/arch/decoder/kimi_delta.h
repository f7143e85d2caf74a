// Kimi delta attention (Kimi Linear, arXiv 2510.26692): the gated delta rule with one decay for
// each key of a head, instead of one for the whole head.
#pragma once

#include <array>
#include <string>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class KimiDelta {
 public:
  // Throws Error as WeightLoader does.
  KimiDelta(const KimiDeltaStyle& style, const WeightLoader& load, const std::string& prefix,
            size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  // Queries, keys or values of all heads, each with a separate convolution.
  struct Input {
    tensor::Tensor proj;  // [n_inner][n_embd]
    nn::Conv conv;
  };
  // A product of two matrices. The width between them is that of a head.
  struct LowRank {
    tensor::Tensor down;  // [head_len][n_embd]
    tensor::Tensor up;    // [n_inner][head_len]
  };

  size_t n_inner() const noexcept { return style_.n_heads * style_.head_len; }
  size_t conv_floats() const noexcept { return nn::conv_state_floats(style_.taps, n_inner()); }
  void multiply(const nn::Compute& compute, const LowRank& weights, const float* bias,
                tensor::Matrix x, tensor::Matrix out) const;

  KimiDeltaStyle style_;
  nn::LinearState state_;
  std::array<Input, 3> inputs_;  // for queries, keys and values
  LowRank decay_;
  LowRank gate_;
  tensor::Tensor beta_;               // [n_heads][n_embd]
  const float* step_bias_ = nullptr;  // [n_inner]
  const float* rates_ = nullptr;      // [n_heads]
  UnitNorm query_norm_;  // norms a head to length 1 / sqrt(its values); also scales scores
  UnitNorm key_norm_;
  Norm norm_;           // norms a head
  tensor::Tensor out_;  // [n_embd][n_inner]
};

}  // namespace billow::arch
