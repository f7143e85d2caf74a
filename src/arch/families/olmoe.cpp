// olmoe: OLMoE. As llama with experts; Q and K are normed over their full width. The softmax
// weights of the chosen experts are not renormalised.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_experts(out, meta, {.gating = Gating::kSoftmax});
  return out;
}

}  // namespace

const ArchDef kOlmoe = {"olmoe", style};

}  // namespace billow::arch
