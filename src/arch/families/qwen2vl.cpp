// qwen2vl: Qwen 2 VL and 2.5 VL, as far as it reads and writes text. As qwen2: what rotates by
// three positions in a picture rotates by one in a text.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  return out;
}

}  // namespace

const ArchDef kQwen2Vl = {"qwen2vl", style};

}  // namespace billow::arch
