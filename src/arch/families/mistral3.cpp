// mistral3: Ministral 3 and Mistral Small 3.x. As llama, but queries far beyond the original
// context are scaled up.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  const double temperature = meta.real_or(
      "attention.temperature_scale", meta.real_or("rope.scaling_beta", 0.0));  // as Ollama names it
  for_attention(out, [&](size_t, AttentionStyle& a) {
    a.temperature = {.growth = static_cast<float>(temperature),
                     .length = static_cast<float>(out.ropes[0].original_context)};
  });
  return out;
}

}  // namespace

const ArchDef kMistral3 = {"mistral3", style};

}  // namespace billow::arch
