#include "arch/blocks/pre_norm_decoder.h"

#include "nn/rows.h"

namespace billow::arch {

void PreNormLayer::load(const WeightLoader& load, const std::string& prefix, const Hparams& h) {
  load.vector(prefix + "attn_norm.weight", attn_norm, h.n_embd);
  attention.load(load, prefix, h);
  load.vector(prefix + "ffn_norm.weight", ffn_norm, h.n_embd);
  feed_forward.load(load, prefix, h);
}

void PreNormDecoder::load(const WeightLoader& load) {
  output.load(load, h);
  layers.resize(h.n_layers);
  for (size_t i = 0; i < layers.size(); ++i) {
    layers[i].load(load, "blk." + std::to_string(i) + ".", h);
  }
}

void PreNormDecoder::forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
                             const Outputs& out) const {
  const tensor::ArenaScope scope(compute.arena);
  const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h.n_embd);
  const tensor::Matrix y = compute.arena.matrix(batch.tokens.size(), h.n_embd);
  const AttentionPass pass(compute, cache, batch);
  const AttentionPass::Rotations rotations = pass.rotations(rope);
  nn::embed(compute, output.embedding, batch.tokens.data(), x);
  for (size_t i = 0; i < layers.size(); ++i) {
    const PreNormLayer& layer = layers[i];
    nn::rms_norm(compute, x, layer.attn_norm, h.norm_epsilon, y);
    attention_block(pass, i, layer.attention, h, rotations, scale, y, y);
    nn::add(compute, x, y);
    nn::rms_norm(compute, x, layer.ffn_norm, h.norm_epsilon, y);
    feed_forward_block(compute, layer.feed_forward, Activation::kSilu, y, y);
    nn::add(compute, x, y);
  }
  output_block(compute, output, h, batch, x, out);
}

}  // namespace billow::arch
