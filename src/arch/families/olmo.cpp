// olmo: OLMo 1. As llama, but with layer norm without weights, and an optional limit of Q, K and V.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  return read_decoder(meta, {.norm = NormKind::kNoWeight});
}

}  // namespace

const ArchDef kOlmo = {"olmo", style};

}  // namespace billow::arch
