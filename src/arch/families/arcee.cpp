// arcee: Arcee AFM 4.5B. As llama, but relu squared without a gate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.activation = nn::Activation::kReluSquared, .gated = false});
}

}  // namespace

const ArchDef kArcee = {"arcee", style};

}  // namespace billow::arch
