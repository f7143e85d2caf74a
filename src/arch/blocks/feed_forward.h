// The feed-forward sub-layer: out = down(activation(gate x) * (up x)), or, without a gate,
// out = down(activation(up x)).
#pragma once

#include <string>

#include "arch/hparams.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

enum class Activation : uint8_t {
  kSilu,
  kGelu,       // its tanh form
  kExactGelu,  // by erf; without a gate only, as the others are with one only
};

struct FeedForwardWeights {
  tensor::Tensor gate;  // [n_ff][n_embd], where there is one
  tensor::Tensor up;    // [n_ff][n_embd]
  tensor::Tensor down;  // [n_embd][n_ff]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;

  void load(const WeightLoader& load, const std::string& prefix, const Hparams& h);
  // As above, but there is no gate.
  void load_without_gate(const WeightLoader& load, const std::string& prefix, const Hparams& h);
};

// x and out are [n][n_embd].
void feed_forward_block(const nn::Compute& compute, const FeedForwardWeights& weights,
                        Activation activation, tensor::Matrix x, tensor::Matrix out);

}  // namespace billow::arch
