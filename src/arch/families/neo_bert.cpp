// neo-bert: NeoBERT. RMS norms before each sub-layer, adjacent values rotate together, SwiGLU, no
// biases.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(
      meta, {.norm = NormKind::kRms, .gated = true, .activation = nn::Activation::kSilu});
  out.norms_of_sums = false;
  out.norms = {.attn = "attn_norm", .post_attn = "", .ffn = "ffn_norm", .post_ffn = ""};
  out.output_norm = "enc.output_norm";
  out.embedding_norm = false;
  set_rope(out, meta, kernels::RopeKind::kAdjacent);
  return out;
}

}  // namespace

const ArchDef kNeoBert = {"neo-bert", nullptr, style};

}  // namespace billow::arch
