#include "arch/blocks/feed_forward.h"

#include "nn/linear.h"
#include "nn/rows.h"

namespace billow::arch {

void FeedForwardWeights::load(const WeightLoader& load, const std::string& prefix,
                              const Hparams& h) {
  load.matrix(prefix + "ffn_gate.weight", gate, h.n_embd, h.n_ff);
  load.vector(prefix + "ffn_gate.bias", gate_bias, h.n_ff, Presence::kOptional);
  load_without_gate(load, prefix, h);
}

void FeedForwardWeights::load_without_gate(const WeightLoader& load, const std::string& prefix,
                                           const Hparams& h) {
  load.matrix(prefix + "ffn_up.weight", up, h.n_embd, h.n_ff);
  load.matrix(prefix + "ffn_down.weight", down, h.n_ff, h.n_embd);
  load.vector(prefix + "ffn_up.bias", up_bias, h.n_ff, Presence::kOptional);
  load.vector(prefix + "ffn_down.bias", down_bias, h.n_embd, Presence::kOptional);
}

void feed_forward_block(const nn::Compute& compute, const FeedForwardWeights& weights,
                        Activation activation, tensor::Matrix x, tensor::Matrix out) {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix gate = compute.arena.matrix(x.n_rows, weights.gate.n_rows);
  const tensor::Matrix up = compute.arena.matrix(x.n_rows, weights.up.n_rows);
  nn::linear(compute, x,
             {{weights.gate, weights.gate_bias, gate}, {weights.up, weights.up_bias, up}});
  if (activation == Activation::kSilu) nn::silu_multiply(compute, gate, up);
  if (activation == Activation::kGelu) nn::gelu_multiply(compute, gate, up);
  nn::linear(compute, gate, {{weights.down, weights.down_bias, out}});
}

}  // namespace billow::arch
