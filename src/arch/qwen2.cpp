// qwen2: Qwen 1.5 to 2.5 without experts, and models distilled into them. As llama, but biases on
// Q, K and V, and the halves of a head rotate together.
#include <cmath>

#include "arch/blocks/attention.h"
#include "arch/blocks/feed_forward.h"
#include "arch/blocks/output.h"
#include "arch/registry.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

struct Qwen2Layer {
  const float* attn_norm = nullptr;
  AttentionWeights attention;
  const float* ffn_norm = nullptr;
  FeedForwardWeights feed_forward;
};

class Qwen2 final : public Model {
 public:
  Qwen2(const gguf::File& file, const LoadOptions& options)
      : h_(read_hparams(file)),
        rope_(read_rope(file, h_, kernels::RopeKind::kHalves, options.max_context)) {
    const WeightLoader load(file);
    output_.load(load, h_);
    layers_.resize(h_.n_layers);
    for (size_t i = 0; i < h_.n_layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      load.vector(prefix + "attn_norm.weight", layers_[i].attn_norm, h_.n_embd);
      layers_[i].attention.load(load, prefix, h_);
      load.vector(prefix + "ffn_norm.weight", layers_[i].ffn_norm, h_.n_embd);
      layers_[i].feed_forward.load(load, prefix, h_);
    }
    info_ = describe(kQwen2.name, h_);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               tensor::Matrix logits) const override {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const tensor::Matrix h = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const AttentionPass pass(compute, cache, batch);
    const nn::Rope::Rotations rotations = rope_.rotations(compute, batch.positions);
    const nn::AttentionScale scale{.factor = 1.0f / std::sqrt(static_cast<float>(h_.k_len))};
    nn::embed(compute, output_.embedding, batch.tokens.data(), x);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Qwen2Layer& layer = layers_[i];
      nn::rms_norm(compute, x, layer.attn_norm, h_.norm_epsilon, h);
      attention_block(pass, i, layer.attention, h_, rotations, scale, h, h);
      nn::add(compute, x, h);
      nn::rms_norm(compute, x, layer.ffn_norm, h_.norm_epsilon, h);
      feed_forward_block(compute, layer.feed_forward, Activation::kSilu, h, h);
      nn::add(compute, x, h);
    }
    output_block(compute, output_, h_, batch, x, logits);
  }

 private:
  Hparams h_;
  nn::Rope rope_;
  OutputWeights output_;
  std::vector<Qwen2Layer> layers_;
};

}  // namespace

const ArchDef kQwen2 = {
    "qwen2", [](const gguf::File& file, const LoadOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<Qwen2>(file, options);
    }};

}  // namespace billow::arch
