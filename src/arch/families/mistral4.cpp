// mistral4: Mistral Small 4. Latent attention as in deepseek2. Experts by softmax over all, whose
// chosen weights add up to 1, and a shared expert.
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
