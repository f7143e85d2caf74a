// falcon: Falcon 7B and 40B. Layer norm, exact GELU without a gate. Attention and feed-forward part
// run in parallel; in the 40B each has a separate norm.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                                         .norm = NormKind::kMean,
                                         .activation = nn::Activation::kGeluErf,
                                         .gated = false});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    LayerNorms& norms = out.layers[i].norms;
    out.layers[i].parallel = true;
    norms.ffn = "";
    if (!has_tensor(meta, i, "attn_norm_2.weight")) continue;
    norms.attn = "attn_norm_2";
    norms.ffn = "attn_norm";
  }
  return out;
}

}  // namespace

const ArchDef kFalcon = {"falcon", style};

}  // namespace billow::arch
