// qwen3vl: Qwen 3 VL, as far as it reads and writes text. As qwen3: what rotates by three
// positions in a picture rotates by one in a text.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  return out;
}

}  // namespace

const ArchDef kQwen3Vl = {"qwen3vl", style};

}  // namespace billow::arch
