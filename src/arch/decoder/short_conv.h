// The short convolution of LFM2. The state is gated, convolved over a few positions, and gated
// again.
#pragma once

#include <string>

#include "arch/decoder/norm.h"
#include "arch/decoder/pass.h"
#include "arch/decoder/style.h"
#include "arch/weights.h"

namespace billow::arch {

class ShortConv {
 public:
  // Throws Error as WeightLoader does.
  ShortConv(const ShortConvStyle& style, const WeightLoader& load, const std::string& prefix,
            size_t n_embd, const Norms& norms);

  kv::LayerNeed kv_need() const noexcept;
  // As Attention::forward().
  void forward(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;

 private:
  size_t n_embd_;
  nn::Conv conv_;
  tensor::Tensor in_gate_;  // each [n_embd][n_embd]
  tensor::Tensor out_gate_;
  tensor::Tensor in_;
  tensor::Tensor out_;
};

}  // namespace billow::arch
