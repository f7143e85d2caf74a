// starcoder: StarCoder 1 and SantaCoder. As gpt2; all query heads share one head of keys and
// values.
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

const ArchDef kStarcoder = {"starcoder", style};

}  // namespace billow::arch
