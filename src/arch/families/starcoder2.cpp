// starcoder2: StarCoder 2. Layer norm, biases everywhere, GELU without a gate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.rope = kernels::RopeKind::kHalves,
                             .norm = NormKind::kMean,
                             .activation = nn::Activation::kGeluTanh,
                             .gated = false});
}

}  // namespace

const ArchDef kStarcoder2 = {"starcoder2", style};

}  // namespace billow::arch
