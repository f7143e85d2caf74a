// The dense feed-forward sub-layer: out = down(activation(gate x) * (up x)), or without a gate
// down(activation(up x)).
#pragma once

#include <string>

#include "arch/decoder/style.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

struct FeedForwardWeights {
  tensor::Tensor gate;  // [n_ff][n_embd]; empty if the model has no gate
  tensor::Tensor up;    // [n_ff][n_embd]
  tensor::Tensor down;  // [n_embd][n_ff]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;

  // `prefix` is "blk.0." and so on. `suffix` follows "ffn_gate" and so on in names. A gate may be
  // in one matrix with "up", before its rows. Loads biases if the file has them.
  void load(const WeightLoader& load, const std::string& prefix, const std::string& suffix,
            size_t n_embd, size_t n_ff, bool gated);
};

// x and out are [n][n_embd] and may be the same.
void feed_forward_block(const nn::Compute& compute, const FeedForwardWeights& weights,
                        const FeedForwardStyle& style, tensor::Matrix x, tensor::Matrix out);

}  // namespace billow::arch
