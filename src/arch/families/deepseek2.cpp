// deepseek2: DeepSeek V2, V3 and R1, Kimi K2, Mistral Large 3, GLM 4.7 Flash. Latent attention with
// one cached row for all heads. After the first dense layers: experts and shared experts; in V3 by
// sigmoid and from the best groups.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_latent_decoder(meta);
  constexpr size_t kLayersOfGlmFlash = 47;
  constexpr size_t kWordsOfGlmFlash = 154880;
  const bool is_glm = out.layers.size() == kLayersOfGlmFlash && out.n_vocab == kWordsOfGlmFlash;
  set_experts(out, meta, {.gating = is_glm ? Gating::kSigmoid : Gating::kSoftmax});
  return out;
}

}  // namespace

const ArchDef kDeepseek2 = {.name = "deepseek2", .style = style, .has_head = true};

}  // namespace billow::arch
