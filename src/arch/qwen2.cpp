// qwen2: Qwen 1.5 to 2.5 without experts, and models distilled into them. As llama, but with biases
// on Q, K and V, and the halves of a head rotate together.
#include <cmath>

#include "arch/blocks/output.h"
#include "arch/blocks/pre_norm_layer.h"
#include "arch/registry.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

class Qwen2 final : public Model {
 public:
  Qwen2(const gguf::File& file, const LoadOptions& options)
      : h_(read_hparams(file)),
        rope_(read_rope(file, h_, kernels::RopeKind::kHalves, options.max_context)) {
    const WeightLoader load(file, options.packed);
    output_.load(load, h_);
    layers_ = load_pre_norm_layers(load, h_);
    info_ = describe(kQwen2.name, h_);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               tensor::Matrix logits) const override {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const tensor::Matrix scratch = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const AttentionPass pass(compute, cache, batch);
    const nn::Rope::Rotations rotations = rope_.rotations(compute, batch.positions);
    const nn::AttentionScale scale{.factor = 1.0f / std::sqrt(static_cast<float>(h_.k_len))};
    nn::embed(compute, output_.embedding, batch.tokens.data(), x);
    for (size_t i = 0; i < layers_.size(); ++i) {
      pre_norm_layer(pass, i, layers_[i], h_, rotations, scale, x, scratch);
    }
    output_block(compute, output_, h_, batch, x, logits);
  }

 private:
  Hparams h_;
  nn::Rope rope_;
  OutputWeights output_;
  std::vector<PreNormLayer> layers_;
};

}  // namespace

const ArchDef kQwen2 = {"qwen2", load_as<Qwen2>};

}  // namespace billow::arch
