// llama: Llama 1 to 3, Mistral 7B, Mixtral, TinyLlama, SmolLM and similar models. RMS norm, rotary
// attention with grouped KV heads, SwiGLU. Converters permute Q and K so that adjacent values
// rotate together. llama-embed: the same, but a token also sees later tokens.
#include "arch/decoder/read.h"
#include "arch/families/bidirectional.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

EncoderStyle encoder(const Metadata& meta) {
  return bidirectional_style(meta, kernels::RopeKind::kAdjacent);
}

}  // namespace

const ArchDef kLlama = {"llama", style, encoder};
const ArchDef kLlamaEmbed = {"llama-embed", nullptr, encoder};

}  // namespace billow::arch
