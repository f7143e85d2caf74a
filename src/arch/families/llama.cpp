// llama: Llama 1 to 3, Mistral 7B, Mixtral, TinyLlama, SmolLM and their kin. RMS norm, rotary
// attention with grouped KV heads, SwiGLU. Converters permute Q and K so that neighbouring values
// rotate together.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kLlama = {"llama", style};

}  // namespace billow::arch
