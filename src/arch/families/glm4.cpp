// glm4: GLM 4 (9B, 32B, Z1). Norms before and after each sub-layer; half of a head rotates; one
// matrix holds gate and up; biases on Q, K and V.
#include <algorithm>
#include <vector>

#include "arch/decoder/read.h"
#include "arch/registry.h"
#include "arch/rope.h"

namespace billow::arch {
namespace {

// Returns whether the rope has sections (M-RoPE). Such files are of models with pictures, and
// converters store the halves of their heads separately.
bool has_sections(const Metadata& meta) {
  constexpr const char* kKey = "rope.dimension_sections";
  constexpr size_t kMaxPairs = 1 << 16;
  if (!meta.has(kKey)) return false;
  return std::ranges::any_of(meta.per_layer(kKey, 3, kMaxPairs), [](size_t n) { return n != 0; });
}

DecoderStyle style(const Metadata& meta) {
  const bool halves = has_sections(meta);
  DecoderStyle out = read_decoder(
      meta, {.rope = halves ? kernels::RopeKind::kHalves : kernels::RopeKind::kAdjacent});
  if (halves) read_axes(meta, false, out.ropes[0]);
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  return out;
}

}  // namespace

const ArchDef kGlm4 = {"glm4", style};

}  // namespace billow::arch
