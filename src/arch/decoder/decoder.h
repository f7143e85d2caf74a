// A decoder that a DecoderStyle describes: an embedding, layers, and the vocabulary's logits. A
// layer has a mixer (attention of some kind, or a recurrent state) and a feed-forward part (dense
// or experts).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "arch/decoder/altup.h"
#include "arch/decoder/attention.h"
#include "arch/decoder/delta_net.h"
#include "arch/decoder/experts.h"
#include "arch/decoder/feed_forward.h"
#include "arch/decoder/kimi_delta.h"
#include "arch/decoder/latent_attention.h"
#include "arch/decoder/mamba.h"
#include "arch/decoder/mamba2.h"
#include "arch/decoder/norm.h"
#include "arch/decoder/output.h"
#include "arch/decoder/short_conv.h"
#include "arch/decoder/style.h"
#include "arch/decoder/time_mix.h"
#include "arch/model.h"

namespace billow::arch {

class Decoder final : public Model {
 public:
  // `file` must outlive the decoder. Throws Error as load_model() does.
  Decoder(DecoderStyle style, const gguf::File& file, const LoadOptions& options);

  void forward(const nn::Compute& compute, kv::Cache* cache, const Batch& batch,
               const Outputs& out) const override;
  const Model* head() const noexcept override { return head_.get(); }

  // Loads the predicting head in the first block after the layers, if the file has one. Its layer
  // is like the model's last layer with attention. Throws Error as the constructor does.
  void load_head(const gguf::File& file, const LoadOptions& options);

 private:
  // The head of a model with these embeddings and outputs, which must outlive it.
  Decoder(DecoderStyle style, const gguf::File& file, const LoadOptions& options,
          const OutputWeights& of_model);

  // In the order of MixerStyle.
  using Mixer = std::variant<std::monostate, Attention, LatentAttention, ShortConv, Mamba, Mamba2,
                             DeltaNet, KimiDelta, TimeMix>;
  struct Layer {
    Norm attn_norm;
    Mixer mixer;
    Mixer beside;
    Norm post_attn_norm;
    Norm ffn_norm;
    FeedForwardWeights dense;
    std::optional<Experts> experts;
    std::optional<ChannelMix> channel_mix;
    Norm post_ffn_norm;
    const float* output_scale = nullptr;  // [1]
    // Gemma 4: experts in parallel with the dense part.
    const float* router_scale = nullptr;  // [n_embd], multiplies the router's input
    Norm post_dense_norm;
    Norm experts_norm;
    Norm post_experts_norm;
    // Gemma 3n and 4: each token's own input to the layer.
    tensor::Tensor own_gate;  // [n_embd_per_layer][n_embd]
    tensor::Tensor own_proj;  // [n_embd][n_embd_per_layer]
    Norm own_norm;
  };

  // Loads the mixer that `style` describes.
  Mixer load_mixer(const WeightLoader& load, const MixerStyle& style,
                   const std::string& prefix) const;
  void load_layer(const WeightLoader& load, size_t index, Layer& layer);
  void load_own_inputs(const WeightLoader& load);
  void load_layers(const WeightLoader& load);
  void embed(const Pass& pass, tensor::Matrix x) const;
  void join(const Pass& pass, tensor::Matrix x) const;
  // Adds the embeddings of pictures that belong to layer `index` to its result.
  static void add_deep_embeddings(const Pass& pass, size_t index, tensor::Matrix x);
  // Returns each token's own inputs: [n_layers][n][n_embd_per_layer].
  tensor::Matrix own_inputs(const nn::Compute& compute, const Batch& batch, tensor::Matrix x) const;
  void run_layer(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix y,
                 tensor::Matrix own) const;
  void mix(const Pass& pass, size_t index, tensor::Matrix x, tensor::Matrix out) const;
  // `state` is the layer's state, x is the normed state.
  void feed_forward(const Pass& pass, size_t index, tensor::Matrix state, tensor::Matrix x,
                    tensor::Matrix out) const;
  // Runs a layer of a model whose tokens have several states. x and y are scratch memory.
  void run_layer_of_states(const Pass& pass, size_t index, tensor::Matrix states,
                           tensor::Matrix predicted, tensor::Matrix x, tensor::Matrix y,
                           tensor::Matrix own) const;
  // Computes the part of layer `index` that the tokens' own inputs contribute to the state x. out
  // may be x.
  void own_input(const nn::Compute& compute, size_t index, tensor::Matrix x, tensor::Matrix own,
                 tensor::Matrix out) const;

  DecoderStyle style_;
  Norms norms_;
  std::vector<nn::Rope> ropes_;
  OutputWeights output_;
  Norm embedding_norm_;
  tensor::Tensor positions_;  // [max_context][n_embd], if positions are learned
  std::vector<Layer> layers_;
  tensor::Tensor own_embedding_;   // [n_vocab][n_layers * n_embd_per_layer]
  tensor::Tensor own_model_proj_;  // [n_layers * n_embd_per_layer][n_embd]
  Norm own_proj_norm_;
  std::optional<AltUp> altup_;
  // Only of a predicting head.
  Norm token_norm_;
  Norm state_norm_;
  tensor::Tensor join_;  // [n_embd][2 * n_embd]: first the token's values, then the state's
  std::unique_ptr<Decoder> head_;  // null: none
};

}  // namespace billow::arch
