// qwen3: Qwen 3 without experts. As qwen2, but without biases and with normed query and key heads.
#include "arch/decoder/read.h"
#include "arch/families/bidirectional.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
  set_qk_norms(out, QkNorm::kBeforeRope);
  return out;
}

EncoderStyle encoder(const Metadata& meta) {
  EncoderStyle out = bidirectional_style(meta, kernels::RopeKind::kHalves);
  out.qk_norm = true;
  return out;
}

}  // namespace

const ArchDef kQwen3 = {"qwen3", style, encoder};

// The text part of Qwen3-VL.
const ArchDef kQwen3Vl = {"qwen3vl", [](const Metadata& meta) {
                            DecoderStyle out = style(meta);
                            read_pictures(meta, out);
                            return out;
                          }};

}  // namespace billow::arch
