// phi3: Phi 3, 3.5 and 4, mini to medium. As llama; Q, K and V stand in one matrix, gate and up in
// another. Long contexts by LongRoPE. Files say nothing reliable of windows, so all layers see
// everything.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
}

}  // namespace

const ArchDef kPhi3 = {"phi3", style};

}  // namespace billow::arch
