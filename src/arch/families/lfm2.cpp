// lfm2 and lfm2moe: Liquid's LFM2. Most layers have a short convolution. The others have attention
// with normed query and key heads. lfm2moe begins with dense layers; its experts are chosen by
// sigmoid with a bias. The final norm is named token_embd_norm.
#include <algorithm>
#include <string>

#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(meta, {.rope = kernels::RopeKind::kHalves, .uneven = true});
  set_qk_norms(out, QkNorm::kBeforeRope);
  set_recurrent(out, read_short_conv(meta));
  // Ollama's older files name the norm like other models, and have a wrong feed_forward_length.
  const auto tensor = [&](const std::string& name) { return meta.file().find_tensor(name); };
  const bool is_old =
      tensor("token_embd_norm.weight") == nullptr && tensor("output_norm.weight") != nullptr;
  out.output_norm = is_old ? "output_norm" : "token_embd_norm";
  for (size_t i = 0; is_old && i < out.layers.size(); ++i) {
    const gguf::TensorInfo* gate = tensor("blk." + std::to_string(i) + ".ffn_gate.weight");
    if (gate != nullptr && out.layers[i].dense)
      out.layers[i].dense->n_ff = std::clamp<uint64_t>(gate->shape[1], 1, kMaxWidth);
  }
  return out;
}

DecoderStyle style_of_mixture(const Metadata& meta) {
  DecoderStyle out = style(meta);
  set_experts(out, meta, {.gating = Gating::kSigmoid, .renormalise = true});
  return out;
}

}  // namespace

const ArchDef kLfm2 = {"lfm2", style};
const ArchDef kLfm2Moe = {"lfm2moe", style_of_mixture};

}  // namespace billow::arch
