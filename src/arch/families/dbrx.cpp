// dbrx: DBRX. Layer norm without biases. One matrix holds Q, K and V, which are clamped. The router
// is a softmax over all experts; the weights of the chosen experts add up to 1.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out =
      read_decoder(meta, {.rope = kernels::RopeKind::kHalves, .norm = NormKind::kMean});
  for (LayerStyle& layer : out.layers) layer.norms.ffn = "attn_output_norm";
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kDbrx = {"dbrx", style};

}  // namespace billow::arch
