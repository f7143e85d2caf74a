// minicpm: MiniCPM 1B, 2B and 4. As llama, with multipliers of embedding, residuals and logits. Old
// files do not hold the multipliers, which are the same in all of these models.
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  set_scales(out, meta);
  constexpr float kEmbeddingScale = 12.0f;
  constexpr float kDepthScale = 1.4f;
  constexpr float kBaseWidth = 256.0f;
  if (!meta.has("embedding_scale")) out.embedding_scale = kEmbeddingScale;
  if (!meta.has("residual_scale"))
    out.residual_scale = kDepthScale / std::sqrt(static_cast<float>(out.layers.size()));
  if (!meta.has("logit_scale")) out.logit_scale = kBaseWidth / static_cast<float>(out.n_embd);
  return out;
}

}  // namespace

const ArchDef kMiniCpm = {"minicpm", style};

}  // namespace billow::arch
