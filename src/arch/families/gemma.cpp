// gemma: Gemma 1 and CodeGemma. GEGLU; the embedding is scaled by sqrt(n_embd). As for all Gemmas,
// files hold norm weights that include the 1 of (1 + w).
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kGeluTanh});
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  return out;
}

}  // namespace

const ArchDef kGemma = {"gemma", style};

}  // namespace billow::arch
