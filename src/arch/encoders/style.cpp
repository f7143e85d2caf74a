#include "arch/encoders/style.h"

#include <algorithm>
#include <string>

#include "arch/rope.h"
#include "arch/weights.h"

namespace billow::arch {

EncoderStyle read_encoder(const Metadata& meta, const EncoderBasics& basics) {
  EncoderStyle style;
  style.n_embd = meta.size("embedding_length", kMaxWidth);
  style.layers.resize(meta.size("block_count", kMaxLayers));
  style.n_ff = meta.size("feed_forward_length", kMaxWidth);
  style.n_heads = meta.size("attention.head_count", kMaxWidth);
  style.n_kv_heads = meta.size_or("attention.head_count_kv", style.n_heads, kMaxWidth);
  style.head_len = meta.size_or("attention.key_length", style.n_embd / style.n_heads, kMaxWidth);
  style.max_context = meta.size("context_length", kMaxContext);
  style.norm = basics.norm;
  style.norm_epsilon = static_cast<float>(meta.positive(basics.norm == NormKind::kRms
                                                            ? "attention.layer_norm_rms_epsilon"
                                                            : "attention.layer_norm_epsilon"));
  style.norms = {
      .attn = "", .post_attn = "attn_output_norm", .ffn = "", .post_ffn = "layer_output_norm"};
  style.gated = basics.gated;
  style.activation = basics.activation;
  if (style.n_heads % style.n_kv_heads != 0)
    meta.refuse("attention.head_count_kv", "does not divide the number of heads");
  if (meta.size_or("attention.value_length", style.head_len, kMaxWidth) != style.head_len)
    meta.refuse("attention.value_length", "is not the length of a key");
  if (meta.flag_or("attention.causal", false))
    meta.refuse("attention.causal", "is true, but the attention of encoders is not causal");
  if (style.head_len == 0 || style.head_len % 8 != 0) {
    meta.refuse("attention.key_length", "makes heads of " + std::to_string(style.head_len) +
                                            "; multiples of 8 are supported");
  }
  if (style.n_heads * style.head_len > kMaxWidth)
    meta.refuse("attention.head_count", "makes heads of more than 2^24 values together");
  style.n_vocab = vocabulary_rows(meta.file());
  return style;
}

void set_rope(EncoderStyle& style, const Metadata& meta, kernels::RopeKind kind) {
  style.ropes = {read_rope(meta, kind, style.head_len, style.max_context)};
  for (EncoderLayerStyle& layer : style.layers) layer.rope = 0;
}

void set_local_layers(EncoderStyle& style, const Metadata& meta, const std::vector<bool>& local) {
  const size_t window = meta.size("attention.sliding_window", kMaxContext);
  if (window < 2)
    meta.refuse("attention.sliding_window",
                "is less than 2, so that a token would see only itself");
  const double base =
      meta.positive_or("rope.freq_base_swa", meta.positive_or("rope.local.freq_base", kRopeBase));
  style.ropes.push_back({.kind = style.ropes[0].kind, .n_rot = style.ropes[0].n_rot, .base = base});
  for (size_t i = 0; i < style.layers.size(); ++i) {
    if (!local[i]) continue;
    style.layers[i].reach = window / 2;
    style.layers[i].rope = 1;
  }
}

}  // namespace billow::arch
