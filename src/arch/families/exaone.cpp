// exaone: EXAONE 3, 3.5 and Deep. As llama, but the halves of a head rotate together.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves});
}

}  // namespace

const ArchDef kExaone = {"exaone", style};

}  // namespace billow::arch
