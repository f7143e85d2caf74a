// hunyuan-dense: Hunyuan 0.5B to 7B. Query and key heads are normed after they rotate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kAfterRope);
  return out;
}

}  // namespace

const ArchDef kHunyuanDense = {"hunyuan-dense", style};

}  // namespace billow::arch
