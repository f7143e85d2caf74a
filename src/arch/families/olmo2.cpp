// olmo2: OLMo 2 and 3. Norms only after each sub-layer, not before; Q and K are normed over their
// full width. In OLMo 3, three of four layers see a window and rotate without scaling.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  for (LayerStyle& layer : out.layers) {
    layer.norms = {
        .attn = "", .post_attn = "post_attention_norm", .ffn = "", .post_ffn = "post_ffw_norm"};
  }
  set_qk_norms(out, QkNorm::kBeforeRope);
  if (meta.count("attention.sliding_window", kMaxContext) == 0) return out;
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  set_windows(out, meta, local);
  out.ropes.push_back({.kind = out.ropes[0].kind,
                       .n_rot = out.ropes[0].n_rot,
                       .base = meta.positive_or("rope.freq_base_swa", out.ropes[0].base)});
  for_attention(out, [&](size_t i, AttentionStyle& a) { a.rope = local[i] ? 1 : 0; });
  return out;
}

}  // namespace

const ArchDef kOlmo2 = {"olmo2", style};

}  // namespace billow::arch
