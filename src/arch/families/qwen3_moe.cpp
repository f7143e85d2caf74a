// qwen3moe: Qwen 3 with experts (30B-A3B, 235B-A22B, Coder). As qwen3, but the feed-forward part
// has experts: softmax over all, and the chosen weights add up to 1.
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

// The text part of Qwen3-VL with experts.
const ArchDef kQwen3VlMoe = {"qwen3vlmoe", [](const Metadata& meta) {
                               DecoderStyle out = style(meta);
                               read_pictures(meta, out);
                               return out;
                             }};

}  // namespace billow::arch
