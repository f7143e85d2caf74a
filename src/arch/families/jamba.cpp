// jamba: AI21's Jamba. Layers of a selective state space, whose parts are normed, and few of
// attention without rotation; every second layer has experts, whose weights are not renormalised.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.uneven = true});
  for_attention(out, [](size_t, AttentionStyle& a) { a.rope.reset(); });
  set_recurrent(out, read_mamba(meta, MambaNorms::kWeighted));
  if (meta.count("expert_count", kMaxWidth) != 0)
    set_experts(out, meta, {.gating = Gating::kSoftmax});
  return out;
}

}  // namespace

const ArchDef kJamba = {"jamba", style};

}  // namespace billow::arch
