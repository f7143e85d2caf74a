// The description of a family of encoders as plain data: sizes, places of norms, positions,
// activation. A family's file fills it in from metadata; TextEncoder loads and runs it. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "arch/decoder/style.h"
#include "arch/metadata.h"
#include "nn/activation.h"
#include "nn/rope.h"

namespace billow::arch {

struct EncoderLayerStyle {
  size_t reach = 0;                 // max distance of visible tokens, on both sides; 0: all
  std::optional<size_t> rope = {};  // index into EncoderStyle::ropes; none: no rotation
  bool attn_norm = true;            // whether the norm of LayerNorms exists in this layer
  std::optional<ExpertsStyle> experts = {};  // replace the dense part
};

// How a classifier works: its activation between dense layer and output, and its input.
struct ClassifierStyle {
  std::optional<nn::Activation> activation = {};  // none: tanh
  bool of_mean = false;  // reads the mean of a text's states; otherwise the first token's
};

struct EncoderStyle {
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_ff = 0;
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t head_len = 0;  // the same for all heads; a multiple of 8
  size_t max_context = 0;
  NormKind norm = NormKind::kMean;
  float norm_epsilon = 0.0f;
  // If true, a norm after a sub-layer norms the sum of result and state, as in BERT, with layer
  // norm. If false, it norms the result alone, and then the result is added to the state.
  bool norms_of_sums = true;
  LayerNorms norms;
  std::string_view output_norm = "";  // after the last layer; empty: none
  float embedding_scale = 1.0f;
  bool embedding_norm = true;      // token_embd_norm
  bool learned_positions = false;  // a row of position_embd is added
  float alibi = 0.0f;              // ALiBi's max bias, on both sides; 0: no ALiBi
  bool biases = false;             // products must have biases; otherwise optional
  bool qk_norm = false;            // norms query and key heads, each head or all heads as one row
  bool gated = false;              // the feed-forward part
  nn::Activation activation = nn::Activation::kGeluErf;
  ClassifierStyle classifier;
  std::vector<nn::RopeParams> ropes;
  std::vector<EncoderLayerStyle> layers;
};

struct EncoderBasics {
  NormKind norm = NormKind::kMean;
  bool gated = false;
  nn::Activation activation = nn::Activation::kGeluErf;
};

// Reads sizes and epsilon, and fills in BERT's defaults: norms after each sub-layer, no window, no
// rotation. A family starts from this style and changes what differs. Throws Error naming a key
// that is missing or invalid.
EncoderStyle read_encoder(const Metadata& meta, const EncoderBasics& basics = {});

// Makes all layers rotate as read_rope() says.
void set_rope(EncoderStyle& style, const Metadata& meta,
              kernels::RopeKind kind = kernels::RopeKind::kHalves);

// Gives a window to the layers that `local` marks. Half of the key attention.sliding_window is on
// either side. These layers rotate with the base of the key rope.freq_base_swa. REQUIRES:
// set_rope() was called.
void set_local_layers(EncoderStyle& style, const Metadata& meta, const std::vector<bool>& local);

}  // namespace billow::arch
