#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr TensorRule kDecoder[] = {
    {"model.embed_tokens", "token_embd"},
    {"model.norm", "output_norm"},
    {"lm_head", "output"},
    {"model.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q"},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k"},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v"},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output"},
    {"model.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mlp.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.mlp.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.mlp.down_proj", "blk.#.ffn_down"},
};
constexpr TensorRule kPaired[] = {
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q", pair_heads},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k", pair_heads},
};
constexpr TensorRule kHeadNorms[] = {
    {"model.layers.#.self_attn.q_norm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_norm", "blk.#.attn_k_norm"},
};
constexpr TensorRule kExperts[] = {
    {"model.layers.#.mlp.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"model.layers.#.mlp.gate.expert_bias", "blk.#.exp_probs_b.bias"},
    {"model.layers.#.mlp.experts.*.gate_proj", "blk.#.ffn_gate_exps"},
    {"model.layers.#.mlp.experts.*.up_proj", "blk.#.ffn_up_exps"},
    {"model.layers.#.mlp.experts.*.down_proj", "blk.#.ffn_down_exps"},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", first_half},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", second_half},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight"},
};
constexpr TensorRule kSharedExperts[] = {
    {"model.layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp"},
    {"model.layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
    {"model.layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp"},
};
constexpr TensorRule kMixtral[] = {
    {"model.layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"model.layers.#.block_sparse_moe.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"model.layers.#.block_sparse_moe.experts.*.w1", "blk.#.ffn_gate_exps"},
    {"model.layers.#.block_sparse_moe.experts.*.w3", "blk.#.ffn_up_exps"},
    {"model.layers.#.block_sparse_moe.experts.*.w2", "blk.#.ffn_down_exps"},
};
constexpr TensorRule kLatent[] = {
    {"model.layers.#.self_attn.q_a_proj", "blk.#.attn_q_a"},
    {"model.layers.#.self_attn.q_a_layernorm", "blk.#.attn_q_a_norm"},
    {"model.layers.#.self_attn.q_b_proj", "blk.#.attn_q_b"},
    {"model.layers.#.self_attn.kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa"},
    {"model.layers.#.self_attn.kv_a_layernorm", "blk.#.attn_kv_a_norm"},
    {"model.layers.#.self_attn.kv_b_proj", "blk.#.attn_k_b", latent_keys},
    {"model.layers.#.self_attn.kv_b_proj", "blk.#.attn_v_b", latent_values},
};
constexpr TensorRule kPostNorms[] = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
};
constexpr TensorRule kSandwichNorms[] = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm"},
};
constexpr TensorRule kMamba[] = {
    {"backbone.embeddings", "token_embd"},
    {"backbone.norm_f", "output_norm"},
    {"backbone.layers.#.norm", "blk.#.attn_norm"},
    {"backbone.layers.#.mixer.in_proj", "blk.#.ssm_in"},
    {"backbone.layers.#.mixer.conv1d", "blk.#.ssm_conv1d", without_middle},
    {"backbone.layers.#.mixer.x_proj", "blk.#.ssm_x"},
    {"backbone.layers.#.mixer.dt_proj", "blk.#.ssm_dt"},
    {"backbone.layers.#.mixer.A_log", "blk.#.ssm_a", minus_exp},
    {"backbone.layers.#.mixer.D", "blk.#.ssm_d"},
    {"backbone.layers.#.mixer.out_proj", "blk.#.ssm_out"},
    {"model.layers.#.mamba.in_proj", "blk.#.ssm_in"},
    {"model.layers.#.mamba.conv1d", "blk.#.ssm_conv1d", without_middle},
    {"model.layers.#.mamba.x_proj", "blk.#.ssm_x"},
    {"model.layers.#.mamba.dt_proj", "blk.#.ssm_dt"},
    {"model.layers.#.mamba.A_log", "blk.#.ssm_a", minus_exp},
    {"model.layers.#.mamba.D", "blk.#.ssm_d"},
    {"model.layers.#.mamba.out_proj", "blk.#.ssm_out"},
};
// Gives the rows of the group norm one row per group.
void by_groups(Shaping& shaping) {
  const uint64_t n_groups =
      shaping.config().count({"n_groups", "num_groups", "mamba_n_groups"}).value_or(1);
  if (n_groups == 0 || shaping.n_rows() % n_groups != 0)
    shaping.refuse("does not consist of whole groups");
  shaping.reshape({n_groups, shaping.n_rows() / n_groups});
}
constexpr TensorRule kMamba2[] = {
    {"backbone.embeddings", "token_embd"},
    {"backbone.embedding", "token_embd"},
    {"backbone.norm_f", "output_norm"},
    {"backbone.layers.#.norm", "blk.#.attn_norm"},
    {"backbone.layers.#.mixer.in_proj", "blk.#.ssm_in"},
    {"backbone.layers.#.mixer.conv1d", "blk.#.ssm_conv1d", without_middle},
    {"backbone.layers.#.mixer.dt_bias", "blk.#.ssm_dt.bias"},
    {"backbone.layers.#.mixer.A_log", "blk.#.ssm_a", minus_exp_column},
    {"backbone.layers.#.mixer.D", "blk.#.ssm_d", as_column},
    {"backbone.layers.#.mixer.norm", "blk.#.ssm_norm", by_groups},
    {"backbone.layers.#.mixer.out_proj", "blk.#.ssm_out"},
    {"model.layers.#.mamba.in_proj", "blk.#.ssm_in"},
    {"model.layers.#.mamba.conv1d", "blk.#.ssm_conv1d", without_middle},
    {"model.layers.#.mamba.dt_bias", "blk.#.ssm_dt.bias"},
    {"model.layers.#.mamba.A_log", "blk.#.ssm_a", minus_exp_column},
    {"model.layers.#.mamba.D", "blk.#.ssm_d", as_column},
    {"model.layers.#.mamba.norm", "blk.#.ssm_norm", by_groups},
    {"model.layers.#.mamba.out_proj", "blk.#.ssm_out"},
};
constexpr TensorRule kPredicting[] = {
    {"model.layers.#.eh_proj", "blk.#.nextn.eh_proj"},
    {"model.layers.#.enorm", "blk.#.nextn.enorm"},
    {"model.layers.#.hnorm", "blk.#.nextn.hnorm"},
    {"model.layers.#.embed_tokens", "blk.#.nextn.embed_tokens"},
    {"model.layers.#.shared_head.norm", "blk.#.nextn.shared_head_norm"},
    {"model.layers.#.shared_head.head", "blk.#.nextn.shared_head_head"},
};

uint64_t n_matrices(const Shaping& shaping) {
  return shaping.shape().size() == 3 ? shaping.shape()[0] : 1;
}

void half(Shaping& shaping, bool is_second) {
  const uint64_t rows = shaping.n_rows() / n_matrices(shaping);
  if (rows % 2 != 0) shaping.refuse("has an odd number of rows");
  shaping.select(n_matrices(shaping), is_second ? rows / 2 : 0, rows / 2);
}

void every_second(Shaping& shaping, uint64_t first) {
  const std::vector<uint64_t> shape = shaping.shape();
  // Biases of experts have one row per expert.
  if (shape.size() == 2 && shaping.name().ends_with("_bias")) {
    if (shape[1] % 2 != 0) shaping.refuse("has an odd row length");
    shaping.reshape({shape[0] * shape[1]});
    shaping.select(shaping.n_rows() / 2, first, 1);
    shaping.describe({shape[0], shape[1] / 2});
    return;
  }
  if (shaping.n_rows() / n_matrices(shaping) % 2 != 0) shaping.refuse("has an odd number of rows");
  shaping.select(shaping.n_rows() / 2, first, 1);
}

void latent(Shaping& shaping, bool is_value) {
  const ModelConfig& config = shaping.config();
  const uint64_t key = config.require_size({"qk_nope_head_dim"});
  const uint64_t value = config.require_size({"v_head_dim"});
  const uint64_t n_heads = shaping.n_rows() / (key + value);
  const uint64_t rank = shaping.row_len();
  if (n_heads == 0 || shaping.n_rows() % (key + value) != 0)
    shaping.refuse("does not consist of whole heads");
  shaping.select(n_heads, is_value ? key : 0, is_value ? value : key);
  shaping.reshape({n_heads, is_value ? value : key, rank});
  if (!is_value) shaping.turn();
}

}  // namespace

TensorRules decoder_names() { return kDecoder; }
TensorRules paired_names() { return kPaired; }
TensorRules head_norm_names() { return kHeadNorms; }
TensorRules expert_names() { return kExperts; }
TensorRules shared_expert_names() { return kSharedExperts; }
TensorRules mixtral_names() { return kMixtral; }
TensorRules latent_names() { return kLatent; }
TensorRules post_norm_names() { return kPostNorms; }
TensorRules sandwich_norm_names() { return kSandwichNorms; }
TensorRules mamba_names() { return kMamba; }
TensorRules mamba2_names() { return kMamba2; }
TensorRules predicting_names() { return kPredicting; }

void pair_heads(Shaping& shaping) { shaping.pair(shaping.config().head_len()); }
void first_half(Shaping& shaping) { half(shaping, false); }
void second_half(Shaping& shaping) { half(shaping, true); }
void even_rows(Shaping& shaping) { every_second(shaping, 0); }
void odd_rows(Shaping& shaping) { every_second(shaping, 1); }
void turned(Shaping& shaping) { shaping.turn(); }
void turned_first_half(Shaping& shaping) {
  shaping.turn();
  first_half(shaping);
}
void turned_second_half(Shaping& shaping) {
  shaping.turn();
  second_half(shaping);
}
void minus_exp(Shaping& shaping) { shaping.minus_exp(); }
void without_middle(Shaping& shaping) {
  if (shaping.shape().size() == 3) shaping.reshape({shaping.shape()[0], shaping.shape()[2]});
}
void as_column(Shaping& shaping) {
  if (shaping.shape().size() == 1) shaping.reshape({shaping.n_rows(), 1});
}
void minus_exp_column(Shaping& shaping) {
  as_column(shaping);
  shaping.minus_exp();
}
void flat(Shaping& shaping) {
  if (shaping.shape().size() != 1) shaping.reshape({shaping.n_rows() * shaping.row_len()});
}
void latent_keys(Shaping& shaping) { latent(shaping, false); }
void latent_values(Shaping& shaping) { latent(shaping, true); }
void joint_heads(Shaping& shaping) {
  const uint64_t n_heads = shaping.config().n_heads();
  const uint64_t n = shaping.n_rows();
  if (n % (3 * n_heads) != 0) shaping.refuse("does not consist of whole heads");
  shaping.swap_rows(0, n_heads, 3, n / (3 * n_heads));
}

}  // namespace billow::convert
