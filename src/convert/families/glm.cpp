// All versions of GLM 4: dense, with experts, and the models of 2024 with ChatGLM's names.
#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kGlm4Classes[] = {"Glm4ForCausalLM", "Glm4vForConditionalGeneration"};
constexpr std::string_view kGlm4MoeClasses[] = {"Glm4MoeForCausalLM",
                                                "Glm4vMoeForConditionalGeneration"};
constexpr std::string_view kChatGlmClasses[] = {"GlmForCausalLM", "ChatGLMModel",
                                                "ChatGLMForConditionalGeneration"};

// Separates the halves of a head for models with pictures. They rotate by sections, and GGUF stores
// their halves separately.
void apart_where_sections(Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  if (!config.rope().contains("mrope_section")) return;
  const double factor = config.rope_number("partial_rotary_factor").value_or(0.5);
  shaping.unpair(config.head_len(), static_cast<uint64_t>(config.head_len() * factor));
}
constexpr TensorRule kGlm4Names[] = {
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q", apart_where_sections},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k", apart_where_sections},
    {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
    {"model.layers.#.post_self_attn_layernorm", "blk.#.post_attention_norm"},
    {"model.layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm"},
};
void glm4_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  partial_rotation(model.config, 0.5, keys);
}

constexpr TensorRule kMoeNames[] = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
};
void moe_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  partial_rotation(config, 0.5, keys);
  count_if(config, {"n_routed_experts"}, "expert_count", keys);
  count_if(config, {"moe_intermediate_size"}, "expert_feed_forward_length", keys);
  count_if(config, {"n_shared_experts"}, "expert_shared_count", keys);
  count_if(config, {"first_k_dense_replace"}, "leading_dense_block_count", keys);
  keys.count("expert_gating_func", 2);
  number_if(config, {"routed_scaling_factor"}, "expert_weights_scale", keys);
  flag_if(config, "norm_topk_prob", "expert_weights_norm", keys);
  if (config.has("num_nextn_predict_layers"))
    keys.count("nextn_predict_layers", model.n_predicting);
}

void chatglm_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const uint32_t n_embd = config.n_embd();
  keys.count("context_length",
             config.count({"seq_length", "max_position_embeddings"}).value_or(n_embd));
  keys.count("embedding_length", n_embd);
  keys.count("feed_forward_length",
             config.count({"ffn_hidden_size", "intermediate_size"}).value_or(uint32_t{4} * n_embd));
  keys.count("block_count", model.n_blocks());
  keys.count("attention.head_count", config.n_heads());
  keys.count(
      "attention.head_count_kv",
      config.count({"multi_query_group_num", "num_key_value_heads"}).value_or(config.n_heads()));
  keys.number("attention.layer_norm_rms_epsilon",
              config.number({"layernorm_epsilon", "rms_norm_eps"}).value_or(1e-5));
  const uint32_t head_len = config.count({"attention_dim"}).value_or(n_embd / config.n_heads());
  const double factor = config.rope_number("partial_rotary_factor").value_or(0.5);
  keys.count("rope.dimension_count", static_cast<uint64_t>(head_len * factor));
  keys.number("rope.freq_base", 10000 * config.number({"rope_ratio"}).value_or(1));
}
constexpr TensorRule kChatGlmNames[] = {
    {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
    {"embedding.word_embeddings", "token_embd"},
    {"output_layer", "output"},
    {"encoder.final_layernorm", "output_norm"},
    {"encoder.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"encoder.layers.#.self_attention.query_key_value", "blk.#.attn_qkv"},
    {"encoder.layers.#.self_attention.dense", "blk.#.attn_output"},
    {"encoder.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"encoder.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"encoder.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};
std::string chatglm_name(const ModelConfig& /*config*/, std::string name) {
  if (name.starts_with("transformer.")) name.erase(0, 12);
  return name;
}

}  // namespace

const LanguageFamily kGlm4 = {.classes = kGlm4Classes,
                              .architecture = "glm4",
                              .rules = {kGlm4Names, decoder_names()},
                              .keys = glm4_keys,
                              .defaults = R"({"head_dim": 128, "rms_norm_eps": 1.5625e-07})"};
const LanguageFamily kGlm4Moe = {.classes = kGlm4MoeClasses,
                                 .architecture = "glm4moe",
                                 .rules = {kMoeNames, expert_names(), shared_expert_names(),
                                           head_norm_names(), predicting_names(), decoder_names()},
                                 .keys = moe_keys,
                                 .defaults = R"({"rms_norm_eps": 1e-5})",
                                 .predicting = Predicting::kAppended};
const LanguageFamily kChatGlm = {.classes = kChatGlmClasses,
                                 .architecture = "chatglm",
                                 .rules = {kChatGlmNames, decoder_names()},
                                 .keys = chatglm_keys,
                                 .rename = chatglm_name};

}  // namespace billow::convert
