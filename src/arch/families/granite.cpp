// granite: Granite 3 and 4 without experts. As llama, with multipliers of embedding, residuals,
// scores and logits.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  set_scales(out, meta);
  drop_unused_rope(out, meta);
  return out;
}

}  // namespace

const ArchDef kGranite = {"granite", style};

}  // namespace billow::arch
