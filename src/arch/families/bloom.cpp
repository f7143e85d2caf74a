// bloom: BLOOM and BLOOMZ. Positions by ALiBi, a norm after the embedding, layer norm, biases
// everywhere, GELU without a gate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.norm = NormKind::kMean, .activation = nn::Activation::kGeluTanh, .gated = false});
  constexpr float kMaxBias = 8.0f;
  out.embedding_norm = true;
  drop_ropes(out);
  for_attention(out, [](size_t, AttentionStyle& a) { a.alibi = kMaxBias; });
  return out;
}

}  // namespace

const ArchDef kBloom = {"bloom", style};

}  // namespace billow::arch
