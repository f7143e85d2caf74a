// glm4: GLM 4 (9B, 32B, Z1). Norms before and after each sub-layer; half of a head rotates; one
// matrix holds gate and up; biases on Q, K and V.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  return out;
}

}  // namespace

const ArchDef kGlm4 = {"glm4", style};

}  // namespace billow::arch
