#include "arch/blocks/pre_norm_layer.h"

#include "nn/rows.h"

namespace billow::arch {

void PreNormLayer::load(const WeightLoader& load, const std::string& prefix, const Hparams& h) {
  load.vector(prefix + "attn_norm.weight", attn_norm, h.n_embd);
  attention.load(load, prefix, h);
  load.vector(prefix + "ffn_norm.weight", ffn_norm, h.n_embd);
  feed_forward.load(load, prefix, h);
}

std::vector<PreNormLayer> load_pre_norm_layers(const WeightLoader& load, const Hparams& h) {
  std::vector<PreNormLayer> layers(h.n_layers);
  for (size_t i = 0; i < layers.size(); ++i)
    layers[i].load(load, "blk." + std::to_string(i) + ".", h);
  return layers;
}

void pre_norm_layer(const AttentionPass& pass, size_t index, const PreNormLayer& layer,
                    const Hparams& h, const nn::Rope::Rotations& rotations,
                    nn::AttentionScale scale, tensor::Matrix x, tensor::Matrix scratch) {
  const nn::Compute& compute = pass.compute;
  nn::rms_norm(compute, x, layer.attn_norm, h.norm_epsilon, scratch);
  attention_block(pass, index, layer.attention, h, rotations, scale, scratch, scratch);
  nn::add(compute, x, scratch);
  nn::rms_norm(compute, x, layer.ffn_norm, h.norm_epsilon, scratch);
  feed_forward_block(compute, layer.feed_forward, Activation::kSilu, scratch, scratch);
  nn::add(compute, x, scratch);
}

}  // namespace billow::arch
