// jamba: AI21's Jamba. Most layers have a selective state space, whose parts are normed. A few have
// attention without rotation. Every second layer has experts, whose weights are not renormalised.
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
