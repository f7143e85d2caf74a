// gemma3: Gemma 3 text models. Norms before and after each sub-layer and on query and key heads,
// GEGLU, the embedding scaled by sqrt(n_embd). Most layers see a window and rotate with a base of
// their own; every sixth sees everything. Files hold norm weights with the 1 of (1 + w) added
// already.
#include <algorithm>
#include <cmath>

#include "arch/blocks/attention.h"
#include "arch/blocks/feed_forward.h"
#include "arch/blocks/output.h"
#include "arch/registry.h"
#include "nn/rows.h"

namespace billow::arch {
namespace {

struct Gemma3Layer {
  bool local = false;  // sees the window only
  const float* attn_norm = nullptr;
  AttentionWeights attention;
  const float* post_attention_norm = nullptr;
  const float* ffn_norm = nullptr;
  FeedForwardWeights feed_forward;
  const float* post_ffw_norm = nullptr;
};

// Whether each layer is local: from a flag for each layer, or the length of a pattern whose last
// layer is global.
std::vector<bool> read_pattern(const gguf::File& file, const Hparams& h) {
  const std::string key = h.prefix + "attention.sliding_window_pattern";
  const gguf::Value* value = file.find(key);
  std::vector<bool> local(h.n_layers);
  if (value != nullptr && value->type == gguf::ValueType::kArray) {
    const gguf::Array* flags = file.get_array(key);
    const bool numbers = flags->element_type != gguf::ValueType::kString &&
                         flags->element_type != gguf::ValueType::kArray;
    if (!numbers || flags->n < h.n_layers)
      refuse_key(file, key, "should have a number for each layer");
    for (size_t i = 0; i < h.n_layers; ++i) local[i] = flags->integer(i) != 0;
    return local;
  }
  const uint64_t pattern = file.get_uint(key).value_or(6);
  if (pattern == 0) refuse_key(file, key, "is 0; it should be 1 or more");
  for (size_t i = 0; i < h.n_layers; ++i) local[i] = i % pattern < pattern - 1;
  return local;
}

// The largest model (27B, 62 layers) scales scores by the width per head instead of the head's
// length.
double default_scale(const Hparams& h) {
  constexpr size_t kLayersOf27B = 62;
  const double len = h.n_layers == kLayersOf27B ? static_cast<double>(h.n_embd / h.n_heads)
                                                : static_cast<double>(h.k_len);
  return 1.0 / std::sqrt(len);
}

class Gemma3 final : public Model {
 public:
  Gemma3(const gguf::File& file, const LoadOptions& options) : h_(read_hparams(file)) {
    nn::RopeParams rope = read_rope(file, h_, kernels::RopeKind::kHalves, options.max_context);
    if (!file.find(h_.prefix + "rope.freq_base")) rope.base = 1e6;
    global_rope_ = nn::Rope(rope);
    const double local_base = file.get_float(h_.prefix + "rope.freq_base_swa").value_or(10000.0);
    if (!(local_base > 0.0))
      refuse_key(file, h_.prefix + "rope.freq_base_swa", "is not a positive number");
    local_rope_ = nn::Rope({.kind = rope.kind, .n_rot = rope.n_rot, .base = local_base});
    scale_.factor = static_cast<float>(
        file.get_float(h_.prefix + "attention.scale").value_or(default_scale(h_)));
    scale_.softcap =
        static_cast<float>(file.get_float(h_.prefix + "attn_logit_softcapping").value_or(0.0));
    final_softcap_ =
        static_cast<float>(file.get_float(h_.prefix + "final_logit_softcapping").value_or(0.0));
    const uint64_t window = file.require_uint(h_.prefix + "attention.sliding_window");
    const std::vector<bool> local = read_pattern(file, h_);
    info_ = describe(kGemma3.name, h_);
    load_weights(WeightLoader(file, options.packed));
    for (size_t i = 0; i < h_.n_layers; ++i) {
      layers_[i].local = local[i];
      if (local[i])
        info_.kv[i].window = static_cast<uint32_t>(std::min<uint64_t>(window, h_.max_context));
    }
  }

  void forward(const nn::Compute& compute, kv::Cache& cache, const Batch& batch,
               const Outputs& out) const override {
    const tensor::ArenaScope scope(compute.arena);
    const tensor::Matrix x = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const tensor::Matrix h = compute.arena.matrix(batch.tokens.size(), h_.n_embd);
    const AttentionPass pass(compute, cache, batch);
    const AttentionPass::Rotations local = pass.rotations(local_rope_);
    const AttentionPass::Rotations global = pass.rotations(global_rope_);
    nn::embed(compute, output_.embedding, batch.tokens.data(), x);
    nn::scale(compute, x, std::sqrt(static_cast<float>(h_.n_embd)));
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Gemma3Layer& layer = layers_[i];
      nn::rms_norm(compute, x, layer.attn_norm, h_.norm_epsilon, h);
      attention_block(pass, i, layer.attention, h_, layer.local ? local : global, scale_, h, h);
      nn::rms_norm(compute, h, layer.post_attention_norm, h_.norm_epsilon, h);
      nn::add(compute, x, h);
      nn::rms_norm(compute, x, layer.ffn_norm, h_.norm_epsilon, h);
      feed_forward_block(compute, layer.feed_forward, Activation::kGelu, h, h);
      nn::rms_norm(compute, h, layer.post_ffw_norm, h_.norm_epsilon, h);
      nn::add(compute, x, h);
    }
    output_block(compute, output_, h_, batch, x, out);
    if (final_softcap_ > 0.0f) nn::softcap(compute, out.logits, final_softcap_);
  }

 private:
  void load_weights(const WeightLoader& load) {
    output_.load(load, h_);
    layers_.resize(h_.n_layers);
    for (size_t i = 0; i < h_.n_layers; ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      Gemma3Layer& layer = layers_[i];
      load.vector(prefix + "attn_norm.weight", layer.attn_norm, h_.n_embd);
      layer.attention.load_with_head_norms(load, prefix, h_);
      load.vector(prefix + "post_attention_norm.weight", layer.post_attention_norm, h_.n_embd);
      load.vector(prefix + "ffn_norm.weight", layer.ffn_norm, h_.n_embd);
      layer.feed_forward.load(load, prefix, h_);
      load.vector(prefix + "post_ffw_norm.weight", layer.post_ffw_norm, h_.n_embd);
    }
  }

  Hparams h_;
  nn::Rope local_rope_;
  nn::Rope global_rope_;
  nn::AttentionScale scale_;
  float final_softcap_ = 0.0f;
  OutputWeights output_;
  std::vector<Gemma3Layer> layers_;
};

}  // namespace

const ArchDef kGemma3 = {"gemma3", load_as<Gemma3>};

}  // namespace billow::arch
