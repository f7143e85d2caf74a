// llama: Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM and their kin. Pre-norm decoder: RMS norm,
// rotary attention with grouped KV heads, SwiGLU. Converters permute Q and K so that neighbouring
// values rotate together.
#include <cmath>

#include "arch/blocks/attention.h"
#include "arch/blocks/feed_forward.h"
#include "arch/blocks/output.h"
#include "arch/registry.h"
#include "base/error.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

struct LlamaLayer {
  const float* attn_norm = nullptr;
  AttentionWeights attention;
  const float* ffn_norm = nullptr;
  FeedForwardWeights feed_forward;
};

class Llama final : public Model {
 public:
  Llama(const gguf::File& file, const LoadOptions& options)
      : h_(read_hparams(file)),
        rope_(read_rope(file, h_, kernels::RopeKind::kAdjacent, options.max_context)) {
    if (file.get_uint(h_.prefix + "expert_count").value_or(0) != 0) {
      throw Error(ErrorCode::kUnsupported, file.path() + ": mixtures of experts are not supported");
    }
    scale_ = static_cast<float>(file.get_float(h_.prefix + "attention.scale")
                                    .value_or(1.0 / std::sqrt(static_cast<double>(h_.k_len))));
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
    info_ = describe(kLlama.name, h_);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               tensor::Matrix logits) const override {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const tensor::Matrix h = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const AttentionPass pass(compute, cache, batch);
    const nn::Rope::Rotations rotations = rope_.rotations(compute, batch.positions);
    nn::embed(compute, output_.embedding, batch.tokens.data(), x);
    for (size_t i = 0; i < layers_.size(); ++i) {
      const LlamaLayer& layer = layers_[i];
      nn::rms_norm(compute, x, layer.attn_norm, h_.norm_epsilon, h);
      attention_block(pass, i, layer.attention, h_, rotations, {.factor = scale_}, h, h);
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
  float scale_ = 1.0f;
  OutputWeights output_;
  std::vector<LlamaLayer> layers_;
};

}  // namespace

const ArchDef kLlama = {
    "llama", [](const gguf::File& file, const LoadOptions& options) -> std::unique_ptr<Model> {
      return std::make_unique<Llama>(file, options);
    }};

}  // namespace billow::arch
