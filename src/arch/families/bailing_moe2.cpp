// bailingmoe2: Ling 2, Ring 2. Query and key heads are normed; half of a head rotates. After the
// first dense layers: experts by sigmoid from the best groups, chosen with a bias, and a shared
// expert.
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

const ArchDef kBailingMoe2 = {"bailingmoe2", style};

}  // namespace billow::arch
