// qwen3next, qwen35 and qwen35moe: Qwen3-Next, Qwen 3.5 and 3.6. Three of four layers have a gated
// delta net. The fourth has attention whose heads have gates and rotate in part. Their files order
// value heads differently: in qwen3next the value heads of a key head are adjacent, in the others
// they alternate.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle hybrid(const Metadata& meta, bool tiled) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves, .uneven = true});
  set_qk_norms(out, QkNorm::kBeforeRope);
  for_attention(out, [](size_t, AttentionStyle& a) { a.gated = true; });
  read_pictures(meta, out);
  DeltaNetStyle delta_net = read_delta_net(meta);
  delta_net.tiled = tiled;
  const std::vector<bool> recurrent = read_recurrent_layers(meta, out.layers.size());
  for (size_t i = 0; i < out.layers.size(); ++i) {
    if (recurrent[i]) out.layers[i].mixer = delta_net;
    out.layers[i].norms.ffn = "post_attention_norm";
  }
  return out;
}

DecoderStyle dense(const Metadata& meta) { return hybrid(meta, true); }

DecoderStyle mixture(const Metadata& meta, bool tiled) {
  DecoderStyle out = hybrid(meta, tiled);
  set_experts(out, meta, {.gating = Gating::kSoftmax, .renormalise = true, .shared_gate = true});
  return out;
}

}  // namespace

const ArchDef kQwen3Next = {.name = "qwen3next",
                            .style = [](const Metadata& meta) { return mixture(meta, false); },
                            .has_head = true};
const ArchDef kQwen35 = {.name = "qwen35", .style = dense, .has_head = true};
const ArchDef kQwen35Moe = {.name = "qwen35moe",
                            .style = [](const Metadata& meta) { return mixture(meta, true); },
                            .has_head = true};

}  // namespace billow::arch
