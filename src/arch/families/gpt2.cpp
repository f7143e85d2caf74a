// gpt2: GPT-2 and similar models. Learned positions, layer norm, biases everywhere except in the
// output, GELU without a gate.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.norm = NormKind::kMean, .activation = nn::Activation::kGeluTanh, .gated = false});
  out.learned_positions = true;
  drop_ropes(out);
  return out;
}

}  // namespace

const ArchDef kGpt2 = {"gpt2", style};
// StarCoder 1 and SantaCoder: all query heads share one head of keys and values.
const ArchDef kStarcoder = {"starcoder", style};

}  // namespace billow::arch
