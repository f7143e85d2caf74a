// qwen2moe: Qwen 1.5 and 2 with experts. As qwen2. The softmax weights of the chosen experts are
// not renormalised, and a shared expert has a gate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_experts(out, meta, {.gating = Gating::kSoftmax, .shared_gate = true});
  return out;
}

}  // namespace

const ArchDef kQwen2Moe = {"qwen2moe", style};

}  // namespace billow::arch
