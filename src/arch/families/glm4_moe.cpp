// glm4moe: GLM 4.5, 4.6 and 4.7 with experts by sigmoid and a shared one. Half of a head rotates;
// the large models norm query and key heads.
#include <string>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta, size_t max_context) {
  DecoderStyle out = read_decoder(meta, max_context, {.rope = kernels::RopeKind::kHalves});
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    out.layers[i].norms.ffn = "post_attention_norm";
    const std::string norm = "blk." + std::to_string(i) + ".attn_q_norm.weight";
    if (meta.file().find_tensor(norm) != nullptr)
      attention_of(out, i).qk_norm = QkNorm::kBeforeRope;
  }
  return out;
}

}  // namespace

const ArchDef kGlm4Moe = {"glm4moe", style};

}  // namespace billow::arch
