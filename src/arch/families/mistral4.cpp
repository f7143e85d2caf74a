// mistral4: Mistral Small 4. Latent attention as in deepseek2; experts by a softmax over all, the
// chosen weights made to add up to 1, and a shared one.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_latent_decoder(meta);
  set_experts(out, meta, {.gating = Gating::kSoftmax});
  return out;
}

}  // namespace

const ArchDef kMistral4 = {"mistral4", style};

}  // namespace billow::arch
