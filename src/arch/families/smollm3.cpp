// smollm3: SmolLM 3. As llama; every fourth layer does not rotate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  for_attention(out, [](size_t i, AttentionStyle& a) {
    if (i % 4 == 3) a.rope.reset();
  });
  return out;
}

}  // namespace

const ArchDef kSmollm3 = {"smollm3", style};

}  // namespace billow::arch
