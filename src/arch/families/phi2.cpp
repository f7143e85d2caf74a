// phi2: Phi 1, 1.5 and 2. Layer norm, biases everywhere including the output, GELU without a gate.
// Attention and feed-forward part read the same normed state.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                                         .norm = NormKind::kMean,
                                         .activation = nn::Activation::kGeluTanh,
                                         .gated = false});
  for (LayerStyle& layer : out.layers) {
    layer.parallel = true;
    layer.norms.ffn = "";
  }
  return out;
}

}  // namespace

const ArchDef kPhi2 = {"phi2", style};

}  // namespace billow::arch
