// command-r: Command R and R+. Layer norm without biases, attention and feed-forward part on the
// same normed state, logits scaled. R+ norms query and key heads, each by weights of its own.
#include <string>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta, size_t max_context) {
  DecoderStyle out = read_decoder(meta, max_context, {.norm = NormKind::kMean});
  out.logit_scale = static_cast<float>(meta.positive_or("logit_scale", 1.0));
  for (size_t i = 0; i < out.layers.size(); ++i) {
    out.layers[i].parallel = true;
    out.layers[i].norms.ffn = "";
    const std::string norm = "blk." + std::to_string(i) + ".attn_q_norm.weight";
    if (meta.file().find_tensor(norm) != nullptr)
      attention_of(out, i).qk_norm = QkNorm::kBeforeRope;
  }
  return out;
}

}  // namespace

const ArchDef kCommandR = {"command-r", style};

}  // namespace billow::arch
