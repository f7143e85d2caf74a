// rwkv7: RWKV 7 (Goose). No attention: each layer has a time mix and a channel mix, with layer
// norms. arwkv7: a Qwen 2 whose attention is replaced by a time mix, with RMS norms and an ordinary
// feed-forward part.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

void set_time_mix(DecoderStyle& style, const Metadata& meta) {
  TimeMixStyle time_mix = read_time_mix(meta, style.n_embd);
  style.first_values = true;
  for (size_t i = 0; i < style.layers.size(); ++i) {
    time_mix.first = i == 0;
    style.layers[i].mixer = time_mix;
  }
}

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.norm = NormKind::kMean, .uneven = true});
  out.embedding_norm = true;
  set_time_mix(out, meta);
  const size_t n_ff = meta.size("feed_forward_length", kMaxWidth);
  for (LayerStyle& layer : out.layers) {
    layer.dense.reset();
    layer.channel_mix = {.n_ff = n_ff};
    layer.norms.ffn = "attn_norm_2";
  }
  return out;
}

DecoderStyle in_qwen(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  set_time_mix(out, meta);
  return out;
}

}  // namespace

const ArchDef kRwkv7 = {"rwkv7", style};
const ArchDef kARwkv7 = {"arwkv7", in_qwen};

}  // namespace billow::arch
