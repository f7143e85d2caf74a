// gemma3: Gemma 3 text models. Norms before and after each sub-layer and on query and key heads,
// GEGLU, the embedding scaled by sqrt(n_embd). Most layers see a window and rotate with another
// base; every sixth layer sees everything. The largest model (27B, 62 layers) scales scores by the
// width per head. Ollama's files of EmbeddingGemma also have this architecture, with dense layers
// after pooling.
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/families/gemma_embedding.h"
#include "arch/registry.h"
#include "arch/rope.h"

namespace billow::arch {
namespace {

// All models with pictures stretch the positions of the layers that see everything. Ollama's files
// do not say so.
void scale_long_rope(const Metadata& meta, DecoderStyle& style) {
  constexpr size_t kLongContext = 131072;
  if (style.max_context < kLongContext || !meta.has("vision.block_count") ||
      meta.has("rope.scaling.type") || meta.has("rope.scaling.factor"))
    return;
  style.ropes[0].scaling = nn::RopeScaling::kLinear;
  style.ropes[0].factor = 8.0;
}

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kGeluTanh});
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  out.final_softcap = static_cast<float>(meta.real_or("final_logit_softcapping", 0.0));
  constexpr double kGlobalBase = 1e6;
  // The keys "global" and "local" are those of Ollama's files.
  if (!meta.has("rope.freq_base"))
    out.ropes[0].base = meta.positive_or("rope.global.freq_base", kGlobalBase);
  scale_long_rope(meta, out);
  out.ropes.push_back(
      {.kind = out.ropes[0].kind,
       .n_rot = out.ropes[0].n_rot,
       .base = meta.positive_or("rope.freq_base_swa",
                                meta.positive_or("rope.local.freq_base", kRopeBase))});
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  // Without a window there are no local layers: all layers rotate as the global layers do.
  const bool has_window = meta.count("attention.sliding_window", kMaxContext) != 0;
  const std::vector<bool> local = has_window ? read_window_pattern(meta, out.layers.size(), 6)
                                             : std::vector<bool>(out.layers.size());
  set_windows(out, meta, local);
  constexpr size_t kLayersOf27B = 62;
  const double softcap = meta.real_or("attn_logit_softcapping", 0.0);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    a.qk_norm = QkNorm::kBeforeRope;
    a.rope = local[i] ? 1 : 0;
    a.softcap = static_cast<float>(softcap);
    a.whole_pictures = true;
    if (out.layers.size() == kLayersOf27B && !meta.has("attention.scale"))
      a.scale = 1.0f / std::sqrt(static_cast<float>(out.n_embd / a.n_heads));
  });
  return out;
}

}  // namespace

const ArchDef kGemma3 = {"gemma3", style, gemma_embedding_style};

}  // namespace billow::arch
