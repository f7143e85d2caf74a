// exaone4: EXAONE 4. Norms only after each sub-layer, not before; query and key heads are normed.
// In the 32B, three of four layers see a window, and only these rotate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  for (LayerStyle& layer : out.layers) {
    layer.norms = {
        .attn = "", .post_attn = "post_attention_norm", .ffn = "", .post_ffn = "post_ffw_norm"};
  }
  set_qk_norms(out, QkNorm::kBeforeRope);
  constexpr size_t kLayersOf32B = 64;
  constexpr size_t kWindow = 4096;
  if (out.layers.size() != kLayersOf32B && !meta.has("attention.sliding_window_pattern"))
    return out;
  const std::vector<bool> local = read_window_pattern(meta, out.layers.size(), 4);
  set_windows(out, meta, local, kWindow);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    if (!local[i]) a.rope.reset();
  });
  return out;
}

}  // namespace

const ArchDef kExaone4 = {"exaone4", style};

}  // namespace billow::arch
