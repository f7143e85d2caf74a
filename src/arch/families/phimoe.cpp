// phimoe: Phi 3.5 MoE. Positions as in phi3, but layer norm, and biases everywhere including the
// output. Two experts by SparseMixer (Liu et al., arXiv 2409.12136).
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                                         .norm = NormKind::kMean,
                                         .epsilon = "attention.layer_norm_rms_epsilon"});
  set_experts(out, meta, {.gating = Gating::kSparseMixer});
  return out;
}

}  // namespace

const ArchDef kPhiMoe = {"phimoe", style};

}  // namespace billow::arch
