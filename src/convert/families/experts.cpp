// Other families with experts: Llama 4, Trinity, ERNIE 4.5, Hunyuan, MiniMax M2, Ling 2, DBRX.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kLlama4Classes[] = {"Llama4ForCausalLM",
                                               "Llama4ForConditionalGeneration"};
constexpr std::string_view kAfmoeClasses[] = {"AfmoeForCausalLM"};
constexpr std::string_view kErnieClasses[] = {"Ernie4_5_MoeForCausalLM"};
constexpr std::string_view kHunyuanClasses[] = {"HunYuanDenseV1ForCausalLM"};
constexpr std::string_view kHunyuanMoeClasses[] = {"HunYuanMoEV1ForCausalLM"};
constexpr std::string_view kMinimaxClasses[] = {"MiniMaxM2ForCausalLM"};
constexpr std::string_view kBailingClasses[] = {"BailingMoeV2ForCausalLM"};
constexpr std::string_view kDbrxClasses[] = {"DbrxForCausalLM"};

constexpr TensorRule kLlama4Names[] = {
    {"model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.down_proj", "blk.#.ffn_down"},
    {"model.layers.#.feed_forward.router", "blk.#.ffn_gate_inp"},
    {"model.layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight",
     turned_first_half},
    {"model.layers.#.feed_forward.experts.gate_up_proj", "blk.#.ffn_up_exps.weight",
     turned_second_half},
    {"model.layers.#.feed_forward.experts.down_proj", "blk.#.ffn_down_exps.weight", turned},
    {"model.layers.#.feed_forward.shared_expert.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.feed_forward.shared_expert.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.feed_forward.shared_expert.down_proj", "blk.#.ffn_down_shexp"},
};
// GGUF has no keys for these fields: all readers assume the values of Llama 4.
constexpr std::pair<std::string_view, double> kLlama4Constants[] = {{"attention_chunk_size", 8192},
                                                                    {"attn_scale", 0.1},
                                                                    {"floor_scale", 8192},
                                                                    {"no_rope_layer_interval", 4}};
void llama4_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  llama_keys(model, keys);
  keys.count("feed_forward_length", config.require_size({"intermediate_size_mlp"}));
  keys.count("interleave_moe_layer_step", config.require_size({"interleave_moe_layer_step"}));
  keys.count("expert_feed_forward_length", config.require_size({"intermediate_size"}));
  const std::vector<bool> full = config.layers_of("full_attention");
  if (!full.empty() && std::ranges::find(full, false) == full.end())
    return keys.count("attention.sliding_window", 0);  // needs none of the constants
  for (const auto& [name, value] : kLlama4Constants)
    if (config.number({name}).value_or(value) != value)
      config.refuse_unknown(fmt::format("\"{}\" must be {} in a Llama 4", name, value));
}

constexpr TensorRule kAfmoeNames[] = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.pre_mlp_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"},
    {"model.layers.#.self_attn.gate_proj", "blk.#.attn_gate"},
    {"model.layers.#.mlp.router.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.expert_bias", "blk.#.exp_probs_b.bias"},
};
void afmoe_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  llama_keys(model, keys);
  count_if(config, {"num_shared_experts"}, "expert_shared_count", keys);
  count_if(config, {"moe_intermediate_size"}, "expert_feed_forward_length", keys);
  count_if(config, {"num_dense_layers"}, "leading_dense_block_count", keys);
  flag_if(config, "route_norm", "expert_weights_norm", keys);
  number_if(config, {"route_scale"}, "expert_weights_scale", keys);
  count_if(config, {"sliding_window"}, "attention.sliding_window", keys);
}

constexpr TensorRule kErnieNames[] = {
    {"model.layers.#.mlp.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
};
void ernie_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  keys.count("expert_count", config.require_size({"moe_num_experts"}));
  keys.count("expert_used_count", config.require_size({"moe_k"}));
  keys.count("interleave_moe_layer_step", config.require_size({"moe_layer_interval"}));
  keys.count("leading_dense_block_count", config.require_count({"moe_layer_start_index"}));
  count_if(config, {"moe_intermediate_size"}, "expert_feed_forward_length", keys);
  const auto n_shared = config.count({"moe_num_shared_experts"});
  if (!n_shared) return;
  keys.count("expert_shared_count", *n_shared);
  // Like llama.cpp's converter. Both engines use the tensors instead of this key.
  if (*n_shared > 0)
    keys.count("expert_shared_feed_forward_length",
               config.require_size({"intermediate_size"}) / config.n_kv_heads());
}
std::string ernie_name(const ModelConfig& /*config*/, std::string name) {
  return name.starts_with("model.mtp_") ? std::string() : name;
}

constexpr TensorRule kHunyuanNames[] = {
    {"model.layers.#.self_attn.query_layernorm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.key_layernorm", "blk.#.attn_k_norm"},
    {"model.layers.#.mlp.gate.wg", "blk.#.ffn_gate_inp"},
    {"model.layers.#.mlp.shared_mlp.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.mlp.shared_mlp.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.mlp.shared_mlp.down_proj", "blk.#.ffn_down_shexp"},
};
// Writes the base of an NTK-aware rotation, with the exponent that the authors chose.
void hunyuan_rope(const ModelConfig& config, double alpha_otherwise, KeyWriter& keys) {
  if (config.rope_type() != "dynamic") return;
  const double alpha = config.rope_number("alpha").value_or(alpha_otherwise);
  const double base = config.rope_number("rope_theta").value_or(10000);
  const double length = config.head_len();
  constexpr uint32_t kContext = 256 * 1024;
  keys.number("rope.freq_base", base * std::pow(alpha, length / (length - 2)));
  keys.text("rope.scaling.type", "none");
  keys.number("rope.scaling.factor", 1);
  keys.count("rope.scaling.original_context_length", kContext);
  keys.count("context_length", kContext);
}
void hunyuan_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  hunyuan_rope(model.config, 50, keys);
}
// Returns the number of all layers: one number, or a list of equal numbers.
uint32_t of_all_layers(const ModelConfig& config, std::string_view name) {
  const auto list = config.counts(name);
  if (!list) return config.require_count({name});
  if (list->empty() || std::ranges::count(*list, list->front()) != std::ssize(*list))
    config.refuse(name, "must be the same for all layers");
  return list->front();
}
void hunyuan_moe_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  keys.count("expert_shared_feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("expert_feed_forward_length", config.has("moe_intermediate_size")
                                               ? of_all_layers(config, "moe_intermediate_size")
                                               : config.require_size({"intermediate_size"}));
  keys.count("expert_used_count", of_all_layers(config, "moe_topk"));
  keys.count("expert_shared_count",
             config.has("num_shared_expert") ? of_all_layers(config, "num_shared_expert") : 1);
  hunyuan_rope(config, 1000, keys);
}

void minimax_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  keys.count("expert_feed_forward_length", model.config.require_size({"intermediate_size"}));
  keys.count("rope.dimension_count", model.config.require_size({"rotary_dim"}));
}

constexpr TensorRule kBailingNames[] = {
    {"model.word_embeddings", "token_embd"},
    {"model.layers.#.attention.query_key_value", "blk.#.attn_qkv"},
    {"model.layers.#.attention.dense", "blk.#.attn_output"},
    {"model.layers.#.attention.query_layernorm", "blk.#.attn_q_norm"},
    {"model.layers.#.attention.key_layernorm", "blk.#.attn_k_norm"},
    {"model.layers.#.final_layernorm", "blk.#.layer_output_norm"},
};
void bailing_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys_with_words(model, keys);
  partial_rotation(config, 0.5, keys);
  const uint32_t length = config.require_size({"moe_intermediate_size"});
  const uint32_t n_shared = config.require_count({"num_shared_experts"});
  keys.count("leading_dense_block_count", config.require_count({"first_k_dense_replace"}));
  keys.count("expert_feed_forward_length", length);
  keys.count("expert_shared_feed_forward_length",
             config.count({"moe_shared_expert_intermediate_size"}).value_or(length * n_shared));
  keys.number("expert_weights_scale", config.require_number({"routed_scaling_factor"}));
  keys.count("expert_shared_count", n_shared);
  keys.flag("expert_weights_norm", config.flag("norm_topk_prob"));
  if (config.has("num_nextn_predict_layers"))
    keys.count("nextn_predict_layers", model.n_predicting);
}

// Splits a matrix that contains the experts one after the other.
void stacked(Shaping& shaping) {
  const uint64_t n = shaping.config().part("ffn_config").require_size({"moe_num_experts"});
  if (shaping.n_rows() % n != 0) shaping.refuse("does not consist of whole experts");
  shaping.reshape({n, shaping.n_rows() / n, shaping.row_len()});
}
void stacked_turned(Shaping& shaping) {
  stacked(shaping);
  shaping.turn();
}
constexpr TensorRule kDbrxNames[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.norm_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.blocks.#.norm_attn_norm.norm_1", "blk.#.attn_norm"},
    {"transformer.blocks.#.norm_attn_norm.attn.Wqkv", "blk.#.attn_qkv"},
    {"transformer.blocks.#.norm_attn_norm.attn.out_proj", "blk.#.attn_output"},
    {"transformer.blocks.#.norm_attn_norm.norm_2", "blk.#.attn_output_norm"},
    {"transformer.blocks.#.ffn.router.layer", "blk.#.ffn_gate_inp", nullptr, true},
    {"transformer.blocks.#.ffn.experts.mlp.w1", "blk.#.ffn_gate_exps.weight", stacked},
    {"transformer.blocks.#.ffn.experts.mlp.v1", "blk.#.ffn_up_exps.weight", stacked},
    {"transformer.blocks.#.ffn.experts.mlp.w2", "blk.#.ffn_down_exps.weight", stacked_turned},
};
void dbrx_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const ModelConfig feed_forward = config.part("ffn_config");
  const ModelConfig attention = config.part("attn_config");
  keys.count("block_count", model.n_blocks());
  keys.count("context_length", config.require_size({"max_seq_len"}));
  keys.count("embedding_length", config.n_embd());
  keys.count("feed_forward_length", feed_forward.require_size({"ffn_hidden_size"}));
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", attention.require_size({"kv_n_heads"}));
  keys.number("rope.freq_base", attention.number({"rope_theta"}).value_or(10000));
  keys.number("attention.clamp_kqv", attention.require_number({"clip_qkv"}));
  keys.count("expert_count", feed_forward.require_size({"moe_num_experts"}));
  keys.count("expert_used_count", feed_forward.require_size({"moe_top_k"}));
  keys.number("attention.layer_norm_epsilon", 1e-5);
}

}  // namespace

const LanguageFamily kLlama4 = {
    .classes = kLlama4Classes,
    .architecture = "llama4",
    .rules = {kLlama4Names, decoder_names()},
    .keys = llama4_keys,
    .defaults = R"({"head_dim": 128, "interleave_moe_layer_step": 1, "rms_norm_eps": 1e-5,
                    "rope_theta": 500000.0, "intermediate_size": 8192,
                    "intermediate_size_mlp": 16384, "num_experts_per_tok": 1,
                    "num_local_experts": 16})"};
const LanguageFamily kAfmoe = {.classes = kAfmoeClasses,
                               .architecture = "afmoe",
                               .rules = {kAfmoeNames, expert_names(), shared_expert_names(),
                                         head_norm_names(), decoder_names()},
                               .keys = afmoe_keys};
const LanguageFamily kErnie45Moe = {
    .classes = kErnieClasses,
    .architecture = "ernie4_5-moe",
    .rules = {kErnieNames, expert_names(), shared_expert_names(), decoder_names()},
    .keys = ernie_keys,
    .rename = ernie_name};
const LanguageFamily kHunyuanDense = {.classes = kHunyuanClasses,
                                      .architecture = "hunyuan-dense",
                                      .rules = {kHunyuanNames, decoder_names()},
                                      .keys = hunyuan_keys,
                                      .own_rotation = "dynamic"};
const LanguageFamily kHunyuanMoe = {.classes = kHunyuanMoeClasses,
                                    .architecture = "hunyuan-moe",
                                    .rules = {kHunyuanNames, expert_names(), decoder_names()},
                                    .keys = hunyuan_moe_keys,
                                    .own_rotation = "dynamic"};
const LanguageFamily kMinimaxM2 = {.classes = kMinimaxClasses,
                                   .architecture = "minimax-m2",
                                   .rules = {mixtral_names(), head_norm_names(), decoder_names()},
                                   .keys = minimax_keys,
                                   .predicting = Predicting::kLeftOut};
const LanguageFamily kBailingMoe2 = {.classes = kBailingClasses,
                                     .architecture = "bailingmoe2",
                                     .rules = {kBailingNames, expert_names(), shared_expert_names(),
                                               predicting_names(), decoder_names()},
                                     .keys = bailing_keys,
                                     .predicting = Predicting::kAppended};
const LanguageFamily kDbrx = {
    .classes = kDbrxClasses, .architecture = "dbrx", .rules = {kDbrxNames}, .keys = dbrx_keys};

}  // namespace billow::convert
