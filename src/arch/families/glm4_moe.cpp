// glm4moe: GLM 4.5, 4.6 and 4.7. Experts by sigmoid, and a shared expert. Half of a head rotates;
// the large models norm query and key heads.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  for (LayerStyle& layer : out.layers) layer.norms.ffn = "post_attention_norm";
  find_qk_norms(out, meta);
  return out;
}

}  // namespace

const ArchDef kGlm4Moe = {.name = "glm4moe", .style = style, .has_head = true};

}  // namespace billow::arch
