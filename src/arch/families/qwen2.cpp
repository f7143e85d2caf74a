// qwen2: Qwen 1.5 to 2.5 without experts, and models distilled into them. As llama, but with biases
// on Q, K and V, and the halves of a head rotate together.
#include "arch/decoder/read.h"
#include "arch/families/bidirectional.h"
#include "arch/registry.h"
#include "arch/rope.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
}

DecoderStyle vision_style(const Metadata& meta) {
  DecoderStyle out = style(meta);
  read_axes(meta, false, out.ropes[0]);
  return out;
}

EncoderStyle encoder(const Metadata& meta) {
  return bidirectional_style(meta, kernels::RopeKind::kHalves);
}

}  // namespace

const ArchDef kQwen2 = {"qwen2", style, encoder};

// The text part of Qwen2-VL and Qwen2.5-VL: tokens of pictures rotate by three positions.
const ArchDef kQwen2Vl = {"qwen2vl", vision_style};

}  // namespace billow::arch
