// nemotron_h and nemotron_h_moe: Nemotron H, Nano 2 and Nemotron 3. A layer is one of three: the
// state space of Mamba 2, attention without rotation, or a feed-forward part of squared ReLU
// without a gate. The feed-forward part is dense or has experts, which may work in a narrower
// space. All layers have one norm at their start.
#include "arch/decoder/read.h"
#include "arch/decoder/read_states.h"
#include "arch/registry.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  const bool has_rms = meta.has("attention.layer_norm_rms_epsilon");
  DecoderStyle out =
      read_decoder(meta, {.activation = nn::Activation::kReluSquared,
                          .gated = false,
                          .epsilon = has_rms ? nullptr : "attention.layer_norm_epsilon",
                          .uneven = true});
  const Mamba2Style mamba = read_mamba2(meta);
  for (LayerStyle& layer : out.layers) {
    if (layer.dense)
      layer.mixer = std::monostate();
    else if (auto* attention = std::get_if<AttentionStyle>(&layer.mixer))
      attention->rope.reset();
    else
      layer.mixer = mamba;
    layer.norms.ffn = layer.norms.attn;
  }
  return out;
}

DecoderStyle style_of_mixture(const Metadata& meta) {
  DecoderStyle out = style(meta);
  set_experts(out, meta,
              {.n_latent = meta.count("moe_latent_size", kMaxWidth),
               .gated = false,
               .activation = nn::Activation::kReluSquared,
               .gating = Gating::kSigmoid});
  return out;
}

}  // namespace

const ArchDef kNemotronH = {"nemotron_h", style};
const ArchDef kNemotronHMoe = {"nemotron_h_moe", style_of_mixture};

}  // namespace billow::arch
