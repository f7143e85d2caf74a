// Multi-head latent attention. The cache holds one row for all heads: a compressed state, followed
// by a key part that rotates. Keys and values of heads are never computed. Instead, queries are
// projected to the compressed state ("absorbed"), and values are computed from the attended state.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class LatentAttention {
 public:
  // Throws Error as WeightLoader does.
  LatentAttention(const LatentAttentionStyle& style, const WeightLoader& load,
                  const std::string& prefix, size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  void queries(const nn::Compute& compute, tensor::Matrix x, tensor::Matrix q) const;

  LatentAttentionStyle style_;
  tensor::Tensor q_;    // [n_heads * k_len][n_embd], or [n_heads * k_len][q_rank]
  tensor::Tensor q_a_;  // [q_rank][n_embd]
  Norm q_a_norm_;
  tensor::Tensor kv_a_;  // [kv_rank + n_rot][n_embd]
  Norm kv_a_norm_;
  std::vector<tensor::Tensor> k_b_;  // for each head: [kv_rank][k_len - n_rot]
  std::vector<tensor::Tensor> v_b_;  // for each head: [v_len][kv_rank]
  tensor::Tensor o_;                 // [n_embd][n_heads * v_len]
};

}  // namespace billow::arch
