#include "arch/vision/style.h"

#include <cmath>

#include "base/error.h"

namespace billow::arch {

PictureStyle read_picture_style(const Metadata& meta, nn::Activation gelu) {
  PictureStyle style;
  style.n_embd = meta.size("vision.embedding_length", kMaxWidth);
  style.n_ff = meta.size("vision.feed_forward_length", kMaxWidth);
  style.n_layers = meta.size("vision.block_count", kMaxLayers);
  style.n_heads = meta.size("vision.attention.head_count", kMaxWidth);
  style.head_len = style.n_embd / style.n_heads;
  constexpr size_t kLenMultiple = 8;
  if (style.n_embd % style.n_heads != 0 || style.head_len % kLenMultiple != 0) {
    meta.refuse("vision.attention.head_count",
                "is " + std::to_string(style.n_heads) + ", but each head of the " +
                    std::to_string(style.n_embd) + " values must have a multiple of 8");
  }
  style.norm_epsilon = static_cast<float>(meta.positive("vision.attention.layer_norm_epsilon"));
  if (meta.flag_or("use_silu", false))
    style.activation = nn::Activation::kSilu;
  else if (meta.flag_or("use_gelu", false))
    style.activation = gelu;
  style.biases = style.qkv_biases = style.patch_bias = true;
  style.attention_scale = 1.0f / std::sqrt(static_cast<float>(style.head_len));
  return style;
}

void set_plain(PictureStyle& style) {
  style.norm = NormKind::kRms;
  style.biases = style.qkv_biases = style.patch_bias = false;
}

}  // namespace billow::arch
