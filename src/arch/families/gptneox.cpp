// gptneox: Pythia, GPT-NeoX 20B, Dolly 2, RedPajama. Layer norm, biases everywhere except in the
// output, exact GELU without a gate; a quarter of a head rotates. Both sub-layers run in parallel,
// each with a separate norm, unless the file says otherwise.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                                         .norm = NormKind::kMean,
                                         .activation = nn::Activation::kGeluErf,
                                         .gated = false});
  const bool parallel = meta.flag_or("use_parallel_residual", true);
  for (LayerStyle& layer : out.layers) layer.parallel = parallel;
  return out;
}

}  // namespace

const ArchDef kGptNeoX = {"gptneox", style};

}  // namespace billow::arch
