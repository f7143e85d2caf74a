#include <algorithm>
#include <cmath>

#include "arch/decoder/read.h"

namespace billow::arch {

LatentAttentionStyle read_latent_attention(const Metadata& meta) {
  if (!meta.has("attention.key_length_mla") || !meta.has("attention.value_length_mla")) {
    meta.refuse("attention.key_length_mla",
                "is missing; the file is of an old converter, convert the model again");
  }
  LatentAttentionStyle sizes = {.n_heads = meta.size("attention.head_count", kMaxWidth),
                                .q_rank = meta.count("attention.q_lora_rank", kMaxWidth),
                                .kv_rank = meta.size("attention.kv_lora_rank", kMaxWidth),
                                .n_rot = meta.size("rope.dimension_count", kMaxWidth),
                                .k_len = meta.size("attention.key_length_mla", kMaxWidth),
                                .v_len = meta.size("attention.value_length_mla", kMaxWidth)};
  if (sizes.n_heads * std::max(sizes.k_len, sizes.v_len) > kMaxWidth)
    meta.refuse("attention.head_count", "makes heads of more than 2^24 values together");
  if (sizes.n_rot >= sizes.k_len || sizes.n_rot % 16 != 0 || sizes.kv_rank % 16 != 0)
    meta.refuse("attention.key_length_mla", "makes heads that are not supported");
  sizes.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(sizes.k_len)));
  return sizes;
}

DecoderStyle read_latent_decoder(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  nn::RopeParams& rope = out.ropes.at(0);
  // The converter writes a tenth of the multiplier. With a multiplier, the amplitude of rotations
  // stays 1, and scores grow instead.
  const double multiplier = 10.0 * rope.yarn_log_multiplier;
  double growth = rope.attention_factor;
  if (rope.scaling == nn::RopeScaling::kYarn && rope.factor > 1.0) {
    growth *= 1.0 + 0.1 * multiplier * std::log(rope.factor);
    rope.yarn_log_multiplier = multiplier != 0.0 ? 1.0 : 0.0;
  }
  LatentAttentionStyle latent = read_latent_attention(meta);
  latent.rope = 0;
  latent.scale = static_cast<float>(growth * growth / std::sqrt(static_cast<double>(latent.k_len)));
  const double length =
      meta.has("attention.temperature_length")
          ? static_cast<double>(meta.size("attention.temperature_length", kMaxContext))
          : rope.original_context;
  latent.temperature = {
      .growth = static_cast<float>(meta.real_or("attention.temperature_scale", 0.0)),
      .length = static_cast<float>(length)};
  for (LayerStyle& layer : out.layers) layer.mixer = latent;
  return out;
}

}  // namespace billow::arch
