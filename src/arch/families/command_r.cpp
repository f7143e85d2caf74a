// command-r: Command R and R+. Layer norm without biases; attention and feed-forward part read the
// same normed state; logits are scaled. R+ norms query and key heads, each with separate weights.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.norm = NormKind::kMean});
  out.logit_scale = static_cast<float>(meta.positive_or("logit_scale", 1.0));
  for (LayerStyle& layer : out.layers) {
    layer.parallel = true;
    layer.norms.ffn = "";
  }
  find_qk_norms(out, meta);
  return out;
}

}  // namespace

const ArchDef kCommandR = {"command-r", style};

}  // namespace billow::arch
