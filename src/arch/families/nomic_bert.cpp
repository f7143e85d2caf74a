// nomic-bert: nomic-embed-text 1 and 1.5. As bert, but queries and keys rotate (the halves of a
// head together), the feed-forward part is gated by SiLU, and products have no biases.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta, {.gated = true, .activation = nn::Activation::kSilu});
  set_rope(out, meta);
  return out;
}

}  // namespace

const ArchDef kNomicBert = {"nomic-bert", nullptr, style};

}  // namespace billow::arch
