// granitemoe: Granite 3 with experts. As granite; some models also have a shared expert.
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
