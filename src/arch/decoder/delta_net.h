// The gated delta net of Qwen3-Next and Qwen 3.5 (Yang, Kautz and Hatamizadeh, arXiv 2412.06464).
#pragma once

#include <string>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class DeltaNet {
 public:
  // Throws Error as WeightLoader does.
  DeltaNet(const DeltaNetStyle& style, const WeightLoader& load, const std::string& prefix,
           size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  size_t n_keys() const noexcept { return style_.n_key_heads * style_.key_len; }
  size_t n_values() const noexcept { return style_.n_heads * style_.value_len; }
  size_t n_convolved() const noexcept { return 2 * n_keys() + n_values(); }
  // Computes decays and gains of each head from the two small matrices, or from the joint matrix.
  void gates(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix decay,
             tensor::Matrix gain) const;

  DeltaNetStyle style_;
  nn::Conv conv_;
  nn::LinearState state_;
  tensor::Tensor qkv_;    // [n_convolved][n_embd]
  tensor::Tensor gate_;   // [n_values][n_embd]
  tensor::Tensor alpha_;  // [n_heads][n_embd]
  tensor::Tensor beta_;   // the same shape
  tensor::Tensor joint_;  // [2 * n_heads][n_embd]: for each key head its betas, then its alphas
  const float* step_bias_ = nullptr;  // [n_heads]
  const float* rates_ = nullptr;      // [n_heads]
  UnitNorm query_norm_;  // norms a head to length 1 / sqrt(its values); also scales scores
  UnitNorm key_norm_;
  Norm norm_;           // norms a head
  tensor::Tensor out_;  // [n_embd][n_values]
};

}  // namespace billow::arch
