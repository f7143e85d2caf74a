// lfm2 and lfm2moe: Liquid's LFM2. Most layers have a short convolution. The others have attention
// with normed query and key heads. lfm2moe begins with dense layers; its experts are chosen by
// sigmoid with a bias. The final norm is named token_embd_norm.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves, .uneven = true});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_recurrent(out, read_short_conv(meta));
  out.output_norm = "token_embd_norm";
  return out;
}

DecoderStyle style_of_mixture(const Metadata& meta) {
  DecoderStyle out = style(meta);
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kLfm2 = {"lfm2", style};
const ArchDef kLfm2Moe = {"lfm2moe", style_of_mixture};

}  // namespace billow::arch
