// ernie4_5-moe: ERNIE 4.5 with experts (21B-A3B, 300B-A47B). As ernie4_5. After the first dense
// layers: experts by softmax over all, chosen with a bias, and shared experts.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kErnie45Moe = {"ernie4_5-moe", style};

}  // namespace billow::arch
