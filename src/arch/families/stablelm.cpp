// stablelm: StableLM 2 and 3B. Layer norm; the 12B norms query and key heads, each by weights of
// its own, and runs both sub-layers side by side.
#include <string>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta, size_t max_context) {
  DecoderStyle out = read_decoder(meta, max_context,
                                  {.rope = kernels::RopeKind::kHalves, .norm = NormKind::kMean});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    if (meta.file().find_tensor(prefix + "attn_q_norm.weight") != nullptr)
      attention_of(out, i).qk_norm = QkNorm::kBeforeRope;
    if (meta.file().find_tensor(prefix + "ffn_norm.weight") == nullptr) {
      out.layers[i].parallel = true;
      out.layers[i].norms.ffn = "";
    }
  }
  return out;
}

}  // namespace

const ArchDef kStableLm = {"stablelm", style};

}  // namespace billow::arch
