#include "quantize/tensor_class.h"

#include <algorithm>
#include <span>

namespace billow::quantize {
namespace {

struct ClassRow {
  std::string_view part;  // text in the name
  bool whole;             // `part` is the whole name
  Class tensor_class;
};

// The first row that matches decides.
constexpr ClassRow kClasses[] = {
    {"output.weight", true, Class::kOutput},
    {"token_embd.weight", true, Class::kEmbedding},
    {"per_layer_token_embd.weight", true, Class::kEmbedding},
    {"attn_qkv.weight", false, Class::kValue},
    {"attn_kv_b.weight", false, Class::kValue},
    {"attn_v.weight", false, Class::kValue},
    {"attn_k.weight", false, Class::kKey},
    {"attn_q.weight", false, Class::kQuery},
    {"attn_output.weight", false, Class::kAttentionOutput},
    {"ffn_up", false, Class::kUp},
    {"ffn_gate", false, Class::kGate},
    {"ffn_down", false, Class::kDown},
};

bool contains(std::string_view name, std::string_view part) noexcept {
  return name.find(part) != std::string_view::npos;
}

// Parts of the names of matrices that keep their type: small ones that a model is sensitive to.
constexpr std::string_view kKeptParts[] = {
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "attn_rel_b.weight",
    "time_mix_first.weight",
    "time_mix_w0.weight",
    "time_mix_w1.weight",
    "time_mix_w2.weight",
    "time_mix_v0.weight",
    "time_mix_v1.weight",
    "time_mix_v2.weight",
    "time_mix_a0.weight",
    "time_mix_a1.weight",
    "time_mix_a2.weight",
    "time_mix_g1.weight",
    "time_mix_g2.weight",
    "time_mix_decay_w1.weight",
    "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
};
constexpr std::string_view kKeptNames[] = {"position_embd.weight", "token_types.weight"};
constexpr std::string_view kGlm5 = "glm5-next";
constexpr std::string_view kKeptPartsOfGlm5[] = {
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
};
// Parts of the names of matrices that need at least Q8_0 in this architecture.
constexpr std::string_view kFinePartsOfGlm5[] = {"attn_q_a", "attn_q_b", "nextn.eh_proj"};

bool contains_any(std::string_view name, std::span<const std::string_view> parts) noexcept {
  return std::ranges::any_of(parts, [&](std::string_view part) { return contains(name, part); });
}

}  // namespace

Class class_of(std::string_view name) noexcept {
  for (const ClassRow& row : kClasses) {
    if (row.whole ? name == row.part : contains(name, row.part)) return row.tensor_class;
  }
  return Class::kOther;
}

bool is_kept(std::string_view name, std::string_view architecture) noexcept {
  return !name.ends_with("weight") || contains_any(name, kKeptParts) ||
         std::ranges::find(kKeptNames, name) != std::end(kKeptNames) ||
         (architecture == kGlm5 && contains_any(name, kKeptPartsOfGlm5));
}

bool is_fine(std::string_view name, std::string_view architecture) noexcept {
  return architecture == kGlm5 && contains_any(name, kFinePartsOfGlm5);
}

}  // namespace billow::quantize
