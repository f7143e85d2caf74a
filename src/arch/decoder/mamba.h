// The selective state space layer of Mamba (Gu and Dao, arXiv 2312.00752).
#pragma once

#include <string>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class Mamba {
 public:
  // Throws Error as WeightLoader does.
  Mamba(const MambaStyle& style, const WeightLoader& load, const std::string& prefix, size_t n_embd,
        const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  MambaStyle style_;
  nn::Conv conv_;
  nn::Scan scan_;
  tensor::Tensor in_;        // [n_channels][n_embd]
  tensor::Tensor gate_;      // the same shape
  tensor::Tensor low_step_;  // [n_steps][n_channels]
  tensor::Tensor b_;         // [n_states][n_channels]
  tensor::Tensor c_;         // the same shape
  tensor::Tensor step_;      // [n_channels][n_steps]
  const float* step_bias_ = nullptr;
  Norm step_norm_;
  Norm b_norm_;
  Norm c_norm_;
  tensor::Tensor out_;  // [n_embd][n_channels]
};

}  // namespace billow::arch
