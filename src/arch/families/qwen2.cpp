// qwen2: Qwen 1.5 to 2.5 without experts, and models distilled into them. As llama, but with biases
// on Q, K and V, and the halves of a head rotate together.
#include "arch/decoder/read.h"
#include "arch/families/bidirectional.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
}

EncoderStyle encoder(const Metadata& meta) {
  return bidirectional_style(meta, kernels::RopeKind::kHalves);
}

}  // namespace

const ArchDef kQwen2 = {"qwen2", style, encoder};

// Text part of a vision model. A picture needs rotations by three positions; a text needs one.
const ArchDef kQwen2Vl = {"qwen2vl", style};

}  // namespace billow::arch
