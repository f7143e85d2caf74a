// granitemoe: Granite 3 with experts. As granite; a shared expert stands beside the chosen ones in
// some.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta);
  set_scales(out, meta);
  drop_unused_rope(out, meta);
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kGraniteMoe = {"granitemoe", style};

}  // namespace billow::arch
