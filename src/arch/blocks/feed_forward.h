// The gated feed-forward sub-layer: out = down(activation(gate x) * (up x)).
#pragma once

#include <string>

#include "arch/hparams.h"
#include "arch/weights.h"
#include "nn/compute.h"

namespace billow::arch {

enum class Activation : uint8_t { kSilu, kGelu };

struct FeedForwardWeights {
  tensor::Tensor gate;  // [n_ff][n_embd]
  tensor::Tensor up;    // [n_ff][n_embd]
  tensor::Tensor down;  // [n_embd][n_ff]
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  const float* down_bias = nullptr;

  void load(const WeightLoader& load, const std::string& prefix, const Hparams& h);
  // The same of a model that has no gate.
  void load_without_gate(const WeightLoader& load, const std::string& prefix, const Hparams& h);
};

// x and out are [n][n_embd].
void feed_forward_block(const nn::Compute& compute, const FeedForwardWeights& weights,
                        Activation activation, tensor::Matrix x, tensor::Matrix out);

}  // namespace billow::arch
