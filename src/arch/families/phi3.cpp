// phi3: Phi 3, 3.5 and 4, mini to medium. As llama, but one matrix holds Q, K and V, and another
// holds gate and up. Long contexts by LongRoPE. The windows in files are not reliable, so all
// layers see everything.
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
