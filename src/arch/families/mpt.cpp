// mpt: MPT 7B and 30B, and SEA-LION. Positions by ALiBi, or learned positions; layer norm, exact
// GELU without a gate. Depending on the file: biases, norms of Q and K over their full width, and a
// limit of Q, K and V.
#include "arch/decoder/read.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.norm = NormKind::kMean, .activation = nn::Activation::kGeluErf, .gated = false});
  for (size_t i = 0; i < out.layers.size(); ++i) {
    if (has_tensor(meta, i, "ffn.act.scales"))
      meta.refuse("block_count",
                  "counts layers with scales of activations (ffn.act.scales), "
                  "which are not supported");
  }
  out.learned_positions = meta.file().find_tensor("position_embd.weight") != nullptr;
  drop_ropes(out);
  const double bias = meta.real_or("attention.max_alibi_bias", 0.0);
  for_attention(out, [&](size_t, AttentionStyle& a) { a.alibi = static_cast<float>(bias); });
  find_qk_norms(out, meta);
  return out;
}

}  // namespace

const ArchDef kMpt = {"mpt", style};

}  // namespace billow::arch
