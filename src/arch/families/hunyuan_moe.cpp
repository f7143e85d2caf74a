// hunyuan-moe: Hunyuan A13B. As hunyuan-dense; each layer has experts and a shared expert.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kAfterRope);
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kHunyuanMoe = {"hunyuan-moe", style};

}  // namespace billow::arch
