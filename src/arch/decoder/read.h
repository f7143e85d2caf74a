// What families of decoders read from metadata alike. A family starts from read_decoder() and
// changes what is its own. Pure; an Error names the key that is missing or makes no sense.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "arch/decoder/style.h"
#include "arch/metadata.h"
#include "kernels/kernel_table.h"

namespace billow::arch {

struct DecoderBasics {
  kernels::RopeKind rope = kernels::RopeKind::kAdjacent;
  NormKind norm = NormKind::kRms;
  nn::Activation activation = nn::Activation::kSilu;
  bool gated = true;              // of the feed-forward part
  const char* epsilon = nullptr;  // its key, where the kind of the norms does not tell
  // Layers may be without heads, or without a dense feed-forward part and experts.
  bool uneven = false;
};

// Sizes, epsilon and rope (ropes[0], which all layers use), attention in layers with heads, and a
// dense feed-forward part in layers with a feed-forward length. Layers that only predict further
// tokens are left out.
DecoderStyle read_decoder(const Metadata& meta, const DecoderBasics& basics = {});

// The attention of layer i. REQUIRES: it has one.
AttentionStyle& attention_of(DecoderStyle& style, size_t layer);

// Calls each(index, AttentionStyle&) for all layers with attention.
template <class Each>
void for_attention(DecoderStyle& style, Each each) {
  for (size_t i = 0; i < style.layers.size(); ++i)
    if (auto* attention = std::get_if<AttentionStyle>(&style.layers[i].mixer)) each(i, *attention);
}

// Nothing rotates.
void drop_ropes(DecoderStyle& style);

// Whether layer i has the tensor blk.i.NAME.
bool has_tensor(const Metadata& meta, size_t layer, std::string_view name);

// Query and key heads are normed in all layers, or before they rotate in those that have weights
// for it.
void set_qk_norms(DecoderStyle& style, QkNorm norm);
void find_qk_norms(DecoderStyle& style, const Metadata& meta);

// Which layers see a window only: a flag for each from the key attention.sliding_window_pattern, or
// all but the last of each `period` layers, where the key gives the period or is missing. A period
// of 0 or 1: none.
std::vector<bool> read_window_pattern(const Metadata& meta, size_t n_layers, size_t period);

// Gives these layers the window of the key attention.sliding_window, or `fallback` where it is
// missing. 0: no layer has a window.
void set_windows(DecoderStyle& style, const Metadata& meta, const std::vector<bool>& local,
                 size_t fallback = 0);

// Layers from n_own_kv on read the KV of the last layer before with a window, or without, as they
// have.
void share_kv(DecoderStyle& style, const std::vector<bool>& local, size_t n_own_kv);

// Puts experts in place of the dense part of the layers that have a router. `experts` gives what
// the keys may leave open: gating, renormalisation, activation.
void set_experts(DecoderStyle& style, const Metadata& meta, ExpertsStyle experts);

// Throws an Error naming the file and the first layer that cannot run: one without mixer and
// feed-forward part, one that runs both side by side and lacks one of them, or one with experts
// beside a dense part that is not there.
void check_layers(const DecoderStyle& style, const std::string& path);

// Multipliers of Granite and its kin: of embedding, residuals, attention and logits.
void set_scales(DecoderStyle& style, const Metadata& meta);

// Latent attention that does not rotate.
LatentAttentionStyle read_latent_attention(const Metadata& meta);

// As read_decoder(), with latent attention in all layers. Queries far behind the original context
// are scaled up where the file says so.
DecoderStyle read_latent_decoder(const Metadata& meta);

// Granite: no layer rotates where rope.scaling.finetuned is false.
void drop_unused_rope(DecoderStyle& style, const Metadata& meta);

}  // namespace billow::arch
