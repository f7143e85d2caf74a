#include "arch/families/bidirectional.h"

namespace billow::arch {

EncoderStyle bidirectional_style(const Metadata& meta, kernels::RopeKind rope) {
  if (meta.count("expert_count", kMaxWidth) != 0)
    meta.refuse("expert_count", "is above 0, but encoders of this architecture have no experts");
  EncoderStyle out = read_encoder(
      meta, {.norm = NormKind::kRms, .gated = true, .activation = nn::Activation::kSilu});
  out.norms_of_sums = false;
  out.norms = {.attn = "attn_norm", .post_attn = "", .ffn = "ffn_norm", .post_ffn = ""};
  out.output_norm = "output_norm";
  out.embedding_norm = false;
  set_rope(out, meta, rope);
  return out;
}

}  // namespace billow::arch
