// gemma4: Gemma 4 (E2B, E4B, 12B, 26B-A4B, 31B). Differences from gemma3: heads of another length
// in layers with a window, RMS norm of values, no scaling of scores, values that are keys if a
// layer has no V, layers that read the KV of an earlier layer, a separate input for each layer, and
// experts in parallel with the dense part.
#include <algorithm>
#include <cmath>

#include "arch/decoder/read.h"
#include "arch/registry.h"
#include "arch/rope.h"

namespace billow::arch {
namespace {

DecoderStyle style(const Metadata& meta) {
  DecoderStyle out = read_decoder(
      meta, {.rope = kernels::RopeKind::kHalves, .activation = nn::Activation::kGeluTanh});
  const size_t n = out.layers.size();
  out.embedding_scale = std::sqrt(static_cast<float>(out.n_embd));
  out.final_softcap = static_cast<float>(meta.real_or("final_logit_softcapping", 0.0));
  out.n_embd_per_layer = meta.count("embedding_length_per_layer_input", kMaxWidth);
  const std::vector<bool> local = read_window_pattern(meta, n, 6);
  const size_t n_own_kv = n - std::min(n, meta.count("attention.shared_kv_layers", kMaxLayers));
  const size_t k_len = meta.size("attention.key_length_swa", kMaxWidth);
  const size_t v_len = meta.size_or("attention.value_length_swa", k_len, kMaxWidth);
  if (k_len % 16 != 0 || v_len != k_len)
    meta.refuse("attention.key_length_swa", "makes heads that are not supported");
  const size_t n_rot = meta.size_or("rope.dimension_count_swa", k_len, k_len);
  if (n_rot % 2 != 0) meta.refuse("rope.dimension_count_swa", "is odd");
  out.ropes.push_back({.kind = out.ropes[0].kind,
                       .n_rot = static_cast<uint32_t>(n_rot),
                       .base = meta.positive_or("rope.freq_base_swa", kRopeBase)});
  for_attention(out, [&](size_t i, AttentionStyle& a) {
    if (local[i]) {
      a.whole_pictures = out.n_embd_per_layer == 0;  // E2B and E4B: no
      a.k_len = k_len;
      a.v_len = v_len;
      a.rope = 1;
    }
    a.scale = 1.0f;
    a.qk_norm = QkNorm::kBeforeRope;
    a.v_norm = true;
    a.values_are_keys =
        !has_tensor(meta, i, "attn_v.weight") && !has_tensor(meta, i, "attn_qkv.weight");
  });
  share_kv(out, local, n_own_kv);
  set_windows(out, meta, local);
  if (meta.count("expert_count", kMaxWidth) != 0) {
    set_experts(out, meta,
                {.activation = nn::Activation::kGeluTanh,
                 .gating = Gating::kSoftmax,
                 .renormalise = true,
                 .adds_dense = true});
  }
  for (LayerStyle& layer : out.layers) {
    layer.norms.post_attn = "post_attention_norm";
    layer.norms.post_ffn = "post_ffw_norm";
    layer.output_scale = true;
  }
  return out;
}

}  // namespace

const ArchDef kGemma4 = {"gemma4", style};

}  // namespace billow::arch
