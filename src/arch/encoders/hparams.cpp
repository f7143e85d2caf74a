#include "arch/encoders/hparams.h"

#include <string>

#include "arch/weights.h"

namespace billow::arch {

EncoderHparams read_encoder_hparams(const Metadata& meta) {
  EncoderHparams h;
  h.n_embd = meta.size("embedding_length", kMaxWidth);
  h.n_layers = meta.size("block_count", kMaxLayers);
  h.n_ff = meta.size("feed_forward_length", kMaxWidth);
  h.n_heads = meta.size("attention.head_count", kMaxWidth);
  h.head_len = meta.size_or("attention.key_length", h.n_embd / h.n_heads, kMaxWidth);
  h.max_context = meta.size("context_length", kMaxContext);
  h.norm_epsilon = static_cast<float>(meta.positive("attention.layer_norm_epsilon"));
  if (meta.size_or("attention.head_count_kv", h.n_heads, kMaxWidth) != h.n_heads)
    meta.refuse("attention.head_count_kv", "is not the number of heads");
  if (meta.size_or("attention.value_length", h.head_len, kMaxWidth) != h.head_len)
    meta.refuse("attention.value_length", "is not the length of a key");
  if (meta.flag_or("attention.causal", false))
    meta.refuse("attention.causal", "is true, which no encoder is");
  if (h.head_len == 0 || h.head_len % 8 != 0) {
    meta.refuse("attention.key_length",
                "makes heads of " + std::to_string(h.head_len) + "; multiples of 8 are supported");
  }
  h.n_vocab = vocabulary_rows(meta.file());
  return h;
}

}  // namespace billow::arch
