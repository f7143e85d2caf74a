// afmoe: Arcee Trinity. Norms before and after each sub-layer and of query and key heads; gates for
// the results of heads; the embedding scaled by sqrt(n_embd). Three of four layers see a window,
// and only these rotate. After the first dense layers: experts by sigmoid, chosen with a bias, and
// a shared expert.
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  set_windows(out, meta, local);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    a.qk_norm = QkNorm::kBeforeRope;
    a.own_gate = true;
    if (!local[i]) a.rope.reset();
  });
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kAfmoe = {"afmoe", style};

}  // namespace billow::arch
