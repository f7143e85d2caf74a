// gemma3n: Gemma 3n E2B and E4B, text only. Differences from gemma3: normed values, no scaling of
// scores, layers that read the KV of an earlier layer, a separate input for each layer, four states
// of each token (AltUp), and a low-rank path in parallel with attention (LAuReL). In the first
// layers only the largest values of the gates count.
#include <algorithm>
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"
#include "arch/rope.h"

namespace billow::arch {
namespace {

AltUpStyle read_altup(const Metadata& meta) {
  constexpr size_t kMaxStates = 16;
  if (meta.count("altup.active_idx", kMaxStates) != 0)
    meta.refuse("altup.active_idx", "is not 0, which is not supported");
  AltUpStyle altup = {.n_states = meta.size_or("altup.num_inputs", 4, kMaxStates)};
  if (altup.n_states < 2) meta.refuse("altup.num_inputs", "is 1; it should be at least 2");
  const gguf::TensorInfo* left = meta.file().find_tensor("blk.0.laurel_l.weight");
  if (left != nullptr) altup.laurel_rank = std::min<size_t>(left->shape[1], kMaxWidth);
  return altup;
}

// Sets the deviation from which on the values of gates count. Old files have no such key: in ten
// layers a twentieth of the values counts.
void set_cuts(DecoderStyle& style, const Metadata& meta) {
  const std::string key = meta.key("activation_sparsity_scale");
  const size_t n = style.layers.size();
  constexpr size_t kCutLayers = 10;
  constexpr double kCut = 1.6448533535003662;
  std::vector<double> cuts(n, -INFINITY);
  std::fill_n(cuts.begin(), std::min(n, kCutLayers), kCut);
  if (meta.file().find(key) != nullptr) cuts = meta.reals_per_layer(key, n);
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(cuts[i]) || cuts[i] == INFINITY)
      meta.refuse("activation_sparsity_scale", "is not a number");
    if (style.layers[i].dense && std::isfinite(cuts[i]))
      style.layers[i].dense->cut = static_cast<float>(cuts[i]);
  }
}

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kGeluTanh});
  const size_t n = out.layers.size();
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  out.final_softcap = static_cast<float>(meta.real_or("final_logit_softcapping", 30.0));
  out.n_embd_per_layer = meta.size_or("embedding_length_per_layer_input", 256, kMaxWidth);
  out.altup = read_altup(meta);
  constexpr double kGlobalBase = 1e6;
  if (!meta.has("rope.freq_base")) out.ropes[0].base = kGlobalBase;
  out.ropes.push_back({.kind = out.ropes[0].kind,
                       .n_rot = out.ropes[0].n_rot,
                       .base = meta.positive_or("rope.freq_base_swa", kRopeBase)});
  const std::vector<bool> local = read_window_pattern(meta, n, 5);
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    a.rope = local[i] ? 1 : 0;
    a.scale = 1.0f;
    a.qk_norm = QkNorm::kBeforeRope;
    a.v_norm = true;
  });
  set_windows(out, meta, local);
  constexpr size_t kOwnKvOfOldFiles = 20;
  const size_t n_own_kv =
      meta.has("attention.shared_kv_layers")
          ? n - std::min(n, meta.count("attention.shared_kv_layers", kMaxLayers))
          : std::min(n, kOwnKvOfOldFiles);
  share_kv(out, local, n_own_kv);
  set_cuts(out, meta);
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
  }
  return out;
}

}  // namespace

const ArchDef kGemma3n = {"gemma3n", style};

}  // namespace billow::arch
