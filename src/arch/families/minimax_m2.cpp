// minimax-m2: MiniMax M2 and M2.x. Q and K are normed over their full width; half of a head
// rotates. Experts by sigmoid, chosen with a bias.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kMinimaxM2 = {"minimax-m2", style};

}  // namespace billow::arch
