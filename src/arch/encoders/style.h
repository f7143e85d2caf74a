// What a family of encoders is, as data: sizes, where norms stand, which positions and activation.
// A family's file fills this in from metadata; TextEncoder loads and runs it. Plain data; pure.
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
  size_t reach = 0;                          // a token sees those so far away to both sides; 0: all
  std::optional<size_t> rope = {};           // which of EncoderStyle::ropes; none: nothing rotates
  bool attn_norm = true;                     // where LayerNorms has one
  std::optional<ExpertsStyle> experts = {};  // in place of the dense part
};

// What stands between the dense layer of a classifier and its output, and what the first reads.
struct ClassifierStyle {
  std::optional<nn::Activation> activation = {};  // none: tanh
  bool of_mean = false;  // of a text's states; else that of the first token
};

struct EncoderStyle {
  size_t n_vocab = 0;
  size_t n_embd = 0;
  size_t n_ff = 0;
  size_t n_heads = 0;
  size_t n_kv_heads = 0;
  size_t head_len = 0;  // of all heads; a multiple of 8
  size_t max_context = 0;
  NormKind norm = NormKind::kMean;
  float norm_epsilon = 0.0f;
  // Norms behind a sub-layer are of the sum of its result with the state, as in BERT; else of the
  // result alone, which is then added. Of sums: layer norm.
  bool norms_of_sums = true;
  LayerNorms norms;
  std::string_view output_norm = "";  // behind the last layer; empty: none
  float embedding_scale = 1.0f;
  bool embedding_norm = true;      // token_embd_norm
  bool learned_positions = false;  // a row of position_embd is added
  float alibi = 0.0f;              // the greatest bias of ALiBi, to both sides; 0: none
  bool biases = false;             // of products: required, else optional
  bool qk_norm = false;            // of query and key heads, or of all heads as one row
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

// Sizes and epsilon, as BERT has them: norms behind each sub-layer, no window, nothing rotates. A
// family starts from it and changes what is its own. An Error names the key that is missing or
// makes no sense.
EncoderStyle read_encoder(const Metadata& meta, const EncoderBasics& basics = {});

// All layers rotate, as read_rope() reads it.
void set_rope(EncoderStyle& style, const Metadata& meta,
              kernels::RopeKind kind = kernels::RopeKind::kHalves);

// These layers see a window only, half of the key attention.sliding_window to either side, and
// rotate with the base of the key rope.freq_base_swa. REQUIRES: set_rope() was called.
void set_local_layers(EncoderStyle& style, const Metadata& meta, const std::vector<bool>& local);

}  // namespace billow::arch
