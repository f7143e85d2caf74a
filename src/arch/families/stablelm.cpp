// stablelm: StableLM 2 and 3B. Layer norm. The 12B norms query and key heads, each with separate
// weights, and runs both sub-layers in parallel.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out =
      read_decoder(meta, {.rope = kernels::RopeKind::kHalves, .norm = NormKind::kMean});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    if (has_tensor(meta, i, "ffn_norm.weight")) continue;
    out.layers[i].parallel = true;
    out.layers[i].norms.ffn = "";
  }
  find_qk_norms(out, meta);
  return out;
}

}  // namespace

const ArchDef kStableLm = {"stablelm", style};

}  // namespace billow::arch
