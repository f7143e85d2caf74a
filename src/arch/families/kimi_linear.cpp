// kimi-linear: Kimi Linear. Layers without KV heads have Kimi delta attention. The others have
// latent attention that does not rotate. After the first dense layers: experts by sigmoid.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  drop_ropes(out);
  const LatentAttentionStyle latent = read_latent_attention(meta);
  for (LayerStyle& layer : out.layers)
    if (!std::holds_alternative<std::monostate>(layer.mixer)) layer.mixer = latent;
  set_recurrent(out, read_kimi_delta(meta));
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kKimiLinear = {"kimi-linear", style};

}  // namespace billow::arch
