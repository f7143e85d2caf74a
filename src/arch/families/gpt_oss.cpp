// gpt-oss: gpt-oss 20B and 120B. Experts with biases and a clamped gate, weighed by a softmax over
// the chosen experts only. Each head has a sink, and every other layer sees a window.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_experts(out, meta,
              {.activation = nn::Activation::kClampedSilu, .gating = Gating::kSoftmaxOfChosen});
  for (LayerStyle& layer : out.layers) layer.norms.ffn = "post_attention_norm";
  for_attention(out, [](size_t, AttentionStyle& a) { a.sinks = true; });
  set_windows(out, meta, read_window_pattern(meta, out.layers.size(), 2));
  return out;
}

}  // namespace

const ArchDef kGptOss = {"gpt-oss", style};

}  // namespace billow::arch
