// cohere2: Command R7B, Command A, Aya of 2025. As command-r, but three of four layers see a
// window, and only these rotate.
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
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  set_windows(out, meta, local);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    if (!local[i]) a.rope.reset();
  });
  return out;
}

}  // namespace

const ArchDef kCohere2 = {"cohere2", style};

}  // namespace billow::arch
