// Reads metadata that families of decoders have in common. A family starts from read_decoder() and
// changes what differs. Pure. Errors name the key that is missing or invalid.
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
  bool gated = true;              // in the feed-forward part
  const char* epsilon = nullptr;  // key of epsilon, if the kind of norm does not imply it
  // Whether layers may have no heads, or neither a dense feed-forward part nor experts.
  bool uneven = false;
};

// Reads sizes, epsilon, and the rope that all layers use (ropes[0]). Layers with heads get
// attention. Layers with a feed-forward length get a dense feed-forward part. Omits layers that
// only predict further tokens.
DecoderStyle read_decoder(const Metadata& meta, const DecoderBasics& basics = {});

// Returns the attention of layer i. REQUIRES: the layer has attention.
AttentionStyle& attention_of(DecoderStyle& style, size_t layer);

// Calls each(index, AttentionStyle&) for all layers with attention.
template <class Each>
void for_attention(DecoderStyle& style, Each each) {
  for (size_t i = 0; i < style.layers.size(); ++i)
    if (auto* attention = std::get_if<AttentionStyle>(&style.layers[i].mixer)) each(i, *attention);
}

// Removes all rotations.
void drop_ropes(DecoderStyle& style);

// Returns whether layer i has the tensor blk.i.NAME.
bool has_tensor(const Metadata& meta, size_t layer, std::string_view name);

// set_qk_norms() makes all layers norm query and key heads. find_qk_norms() does so, before they
// rotate, in the layers that have weights for it.
void set_qk_norms(DecoderStyle& style, QkNorm norm);
void find_qk_norms(DecoderStyle& style, const Metadata& meta);

// Returns a flag for each layer: whether it sees only a window. The flags are those of the key
// attention.sliding_window_pattern. If the key gives a period or is missing, all but the last of
// each `period` layers see a window. A period of 0 or 1: no layer sees a window.
std::vector<bool> read_window_pattern(const Metadata& meta, size_t n_layers, size_t period);

// Gives the `local` layers the window of the key attention.sliding_window, or `fallback` if the key
// is missing. 0: no layer has a window.
void set_windows(DecoderStyle& style, const Metadata& meta, const std::vector<bool>& local,
                 size_t fallback = 0);

// Makes layers from n_own_kv on share KV. Each reads the KV of the last earlier layer that equals
// it in having a window or not.
void share_kv(DecoderStyle& style, const std::vector<bool>& local, size_t n_own_kv);

// Replaces the dense part of all layers that have a router with experts. `experts` has the defaults
// of optional keys: gating, renormalisation, activation.
void set_experts(DecoderStyle& style, const Metadata& meta, ExpertsStyle experts);

// Throws an Error naming the file and the first layer that cannot run. Such a layer has no part at
// all, lacks one of two parallel parts, or has experts that need a missing dense part.
void check_layers(const DecoderStyle& style, const std::string& path);

// Reads the multipliers of Granite and similar models: embedding, residuals, attention, logits.
void set_scales(DecoderStyle& style, const Metadata& meta);

// Returns latent attention that does not rotate.
LatentAttentionStyle read_latent_attention(const Metadata& meta);

// As read_decoder(), with latent attention in all layers. If the file says so, queries far beyond
// the original context are scaled up.
DecoderStyle read_latent_decoder(const Metadata& meta);

// Granite: removes all rotations if rope.scaling.finetuned is false.
void drop_unused_rope(DecoderStyle& style, const Metadata& meta);

// Reads how Qwen3-VL and later models take pictures: three positions for rotations whose pairs
// alternate, and the number of layers with deep embeddings.
void read_pictures(const Metadata& meta, DecoderStyle& style);

}  // namespace billow::arch
