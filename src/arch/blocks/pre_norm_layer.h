// The layer of most decoders: x += attention(norm(x)); x += feed_forward(norm(x)).
#pragma once

#include <string>

#include "arch/blocks/attention.h"
#include "arch/blocks/feed_forward.h"

namespace billow::arch {

struct PreNormLayer {
  const float* attn_norm = nullptr;  // [n_embd]
  AttentionWeights attention;
  const float* ffn_norm = nullptr;  // [n_embd]
  FeedForwardWeights feed_forward;

  void load(const WeightLoader& load, const std::string& prefix, const Hparams& h);
};

// Layers "blk.0." and on, h.n_layers of them.
std::vector<PreNormLayer> load_pre_norm_layers(const WeightLoader& load, const Hparams& h);

// Takes x, [n][n_embd], through layer `index` in place; `scratch` is of the same shape.
void pre_norm_layer(const AttentionPass& pass, size_t index, const PreNormLayer& layer,
                    const Hparams& h, const nn::Rope::Rotations& rotations,
                    nn::AttentionScale scale, tensor::Matrix x, tensor::Matrix scratch);

}  // namespace billow::arch
