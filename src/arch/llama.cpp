// llama: Llama 1 to 3, Mistral 7B, TinyLlama, SmolLM and their kin. Pre-norm decoder: RMS norm,
// rotary attention with grouped KV heads, SwiGLU. Converters permute Q and K so that neighbouring
// values rotate together.
#include <cmath>

#include "arch/blocks/output.h"
#include "arch/blocks/pre_norm_layer.h"
#include "arch/registry.h"
#include "base/error.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

class Llama final : public Model {
 public:
  Llama(const gguf::File& file, const LoadOptions& options)
      : h_(read_hparams(file)),
        rope_(read_rope(file, h_, kernels::RopeKind::kAdjacent, options.max_context)) {
    if (file.get_uint(h_.prefix + "expert_count").value_or(0) != 0) {
      throw Error(ErrorCode::kUnsupported, file.path() + ": mixtures of experts are not supported");
    }
    const double default_scale = 1.0 / std::sqrt(static_cast<double>(h_.k_len));
    scale_.factor =
        static_cast<float>(file.get_float(h_.prefix + "attention.scale").value_or(default_scale));
    const WeightLoader load(file, options.packed);
    output_.load(load, h_);
    layers_ = load_pre_norm_layers(load, h_);
    info_ = describe(kLlama.name, h_);
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               tensor::Matrix logits) const override {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const tensor::Matrix scratch = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const AttentionPass pass(compute, cache, batch);
    const nn::Rope::Rotations rotations = rope_.rotations(compute, batch.positions);
    nn::embed(compute, output_.embedding, batch.tokens.data(), x);
    for (size_t i = 0; i < layers_.size(); ++i) {
      pre_norm_layer(pass, i, layers_[i], h_, rotations, scale_, x, scratch);
    }
    output_block(compute, output_, h_, batch, x, logits);
  }

 private:
  Hparams h_;
  nn::Rope rope_;
  nn::AttentionScale scale_;
  OutputWeights output_;
  std::vector<PreNormLayer> layers_;
};

}  // namespace

const ArchDef kLlama = {"llama", load_as<Llama>};

}  // namespace billow::arch
