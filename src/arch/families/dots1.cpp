// dots1: dots.llm1. Query and key heads are normed. After the first dense layers: experts by
// sigmoid, and a shared expert.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_experts(out, meta, {.gating = Gating::kSigmoid});
  return out;
}

}  // namespace

const ArchDef kDots1 = {"dots1", style};

}  // namespace billow::arch
