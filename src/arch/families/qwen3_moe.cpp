// qwen3moe: Qwen 3 with experts (30B-A3B, 235B-A22B, Coder). As qwen3, but the feed-forward part is
// experts: softmax over all, the chosen weights made to add up to 1.
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

const ArchDef kQwen3Moe = {"qwen3moe", style};

// Text of a model that sees: what rotates by three positions in a picture rotates by one in a text.
const ArchDef kQwen3VlMoe = {"qwen3vlmoe", style};

}  // namespace billow::arch
