// qwen3vlmoe: Qwen 3 VL with experts, as far as it reads and writes text. As qwen3moe: what rotates
// by three positions in a picture rotates by one in a text.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kQwen3VlMoe = {"qwen3vlmoe", style};

}  // namespace billow::arch
