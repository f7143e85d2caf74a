// granitehybrid: Granite 4. Most layers have the state space of Mamba 2. The others have attention,
// which rotates only if the file says so. The feed-forward part is dense, or has experts and a
// shared expert.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  set_scales(out, meta);
  drop_unused_rope(out, meta);
  set_recurrent(out, read_mamba2(meta));
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kGraniteHybrid = {"granitehybrid", style};

}  // namespace billow::arch
