// The state space layer of Mamba 2 (Dao and Gu, arXiv 2405.21060): heads with one decay each.
#pragma once

#include <string>
#include <vector>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class Mamba2 {
 public:
  // Throws Error as WeightLoader does.
  Mamba2(const Mamba2Style& style, const WeightLoader& load, const std::string& prefix,
         size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  // The input of the convolution: values, then keys and queries of each group.
  size_t n_convolved() const noexcept {
    return style_.n_channels + 2 * style_.n_groups * style_.n_states;
  }
  size_t head_len() const noexcept { return style_.n_channels / style_.n_heads; }

  Mamba2Style style_;
  nn::Conv conv_;
  nn::LinearState state_;
  tensor::Tensor gate_;  // [n_channels][n_embd]
  tensor::Tensor in_;    // [n_convolved][n_embd]
  tensor::Tensor step_;  // [n_heads][n_embd]
  const float* step_bias_ = nullptr;
  const float* rates_ = nullptr;  // [n_heads]
  const float* skips_ = nullptr;  // [n_heads]
  Norm norm_;                     // norms each group's channels, with separate weights
  tensor::Tensor out_;            // [n_embd][n_channels]
};

}  // namespace billow::arch
