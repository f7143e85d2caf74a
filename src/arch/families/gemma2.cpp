// gemma2: Gemma 2. As gemma, with norms before and after each sub-layer, soft caps of scores and
// logits, and a window in every other layer. The largest model (27B, 46 layers) scales scores by
// the width per head.
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kGeluTanh});
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  out.final_softcap = static_cast<float>(meta.real_or("final_logit_softcapping", 30.0));
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  constexpr size_t kLayersOf27B = 46;
  const double softcap = meta.real_or("attn_logit_softcapping", 50.0);
  for_attention(out, [&](size_t, AttentionStyle& a) {
    a.softcap = static_cast<float>(softcap);
    if (out.layers.size() == kLayersOf27B)
      a.scale = 1.0f / std::sqrt(static_cast<float>(out.n_embd / a.n_heads));
  });
  constexpr size_t kWindow = 4096;
  set_windows(out, meta, read_window_pattern(meta, out.layers.size(), 2), kWindow);
  return out;
}

}  // namespace

const ArchDef kGemma2 = {"gemma2", style};

}  // namespace billow::arch
