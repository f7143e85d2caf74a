// nomic-bert-moe: nomic-embed-text 2. As bert, but queries and keys rotate (the halves of a head
// together). Some layers, usually every other one, have experts with softmax weights.
#include "arch/encoders/style.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

constexpr size_t kMaxExperts = 65536;

EncoderStyle style(const Metadata& meta) {
  EncoderStyle out = read_encoder(meta);
  out.biases = meta.file().find_tensor("blk.0.ffn_up.bias") != nullptr;
  set_rope(out, meta);
  const size_t period = meta.count("moe_every_n_layers", kMaxLayers);
  if (period == 0) return out;
  ExpertsStyle experts = {.n_ff = out.n_ff, .gated = false, .activation = out.activation};
  experts.n_experts = meta.size("expert_count", kMaxExperts);
  experts.n_used = meta.size("expert_used_count", kMaxExperts);
  if (experts.n_used > experts.n_experts)
    meta.refuse("expert_used_count", "is above the number of experts");
  for (size_t i = 0; i < out.layers.size(); ++i)
    if (i % period == 1) out.layers[i].experts = experts;
  return out;
}

}  // namespace

const ArchDef kNomicBertMoe = {"nomic-bert-moe", nullptr, style};

}  // namespace billow::arch
