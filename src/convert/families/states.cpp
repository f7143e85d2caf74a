// Families with recurrent states: Mamba 1 and 2, Jamba, Falcon H1, LFM2, Kimi Linear. Nemotron H is
// in nemotron_h.cpp.
#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr uint64_t kAnyContext = uint64_t{1} << 20;

constexpr std::string_view kMambaClasses[] = {"MambaForCausalLM", "MambaLMHeadModel",
                                              "FalconMambaForCausalLM"};
constexpr std::string_view kMamba2Classes[] = {"Mamba2ForCausalLM"};
constexpr std::string_view kJambaClasses[] = {"JambaForCausalLM"};
constexpr std::string_view kFalconH1Classes[] = {"FalconH1ForCausalLM"};
constexpr std::string_view kLfm2Classes[] = {"Lfm2ForCausalLM", "LFM2ForCausalLM"};
constexpr std::string_view kLfm2MoeClasses[] = {"Lfm2MoeForCausalLM"};
constexpr std::string_view kKimiClasses[] = {"KimiLinearForCausalLM"};

// Renames tensors of checkpoints that are older than the class in Hugging Face's library.
std::string mamba_name(const ModelConfig& /*config*/, std::string name) {
  if (name.starts_with("model.backbone") || name.starts_with("model.lm_head")) name.erase(0, 6);
  constexpr std::string_view kOld = "backbone.embedding.";
  if (name.starts_with(kOld)) name.replace(0, kOld.size(), "backbone.embeddings.");
  return name;
}
void nothing_but_states(const LanguageModel& model, KeyWriter& keys) {
  keys.count("context_length", kAnyContext);
  keys.count("embedding_length", model.config.n_embd());
  keys.count("feed_forward_length", 0);
  keys.count("attention.head_count", 0);
  keys.count("block_count", model.n_blocks());
}
void mamba_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  nothing_but_states(model, keys);
  const uint32_t n_embd = config.n_embd();
  keys.count("ssm.conv_kernel", config.count({"conv_kernel", "d_conv"}).value_or(4));
  keys.count("ssm.inner_size", config.count({"intermediate_size", "d_inner"}).value_or(2 * n_embd));
  keys.count("ssm.state_size", config.count({"state_size", "d_state"}).value_or(16));
  keys.count("ssm.time_step_rank",
             config.count({"time_step_rank", "dt_rank"}).value_or((n_embd + 15) / 16));
  keys.number("attention.layer_norm_rms_epsilon",
              config.number({"layer_norm_epsilon", "rms_norm_eps"}).value_or(1e-5));
  keys.flag("ssm.dt_b_c_rms", config.text({"model_type"}).value_or("") == "falcon_mamba");
}
void mamba2_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  nothing_but_states(model, keys);
  const uint32_t inner = config.count({"intermediate_size", "d_inner"})
                             .value_or(config.count({"expand"}).value_or(2) * config.n_embd());
  const uint32_t head_len = config.count({"head_dim"}).value_or(64);
  if (head_len == 0 || inner % head_len != 0)
    config.refuse("head_dim", "does not divide the width");
  keys.count("ssm.conv_kernel", config.count({"conv_kernel", "d_conv"}).value_or(4));
  keys.count("ssm.inner_size", inner);
  keys.count("ssm.state_size", config.count({"state_size", "d_state"}).value_or(128));
  keys.count("ssm.time_step_rank", inner / head_len);
  keys.count("ssm.group_count", config.count({"n_groups"}).value_or(1));
  keys.number("attention.layer_norm_rms_epsilon",
              config.number({"layer_norm_epsilon", "rms_norm_eps"}).value_or(1e-5));
}

constexpr TensorRule kJambaNames[] = {
    {"model.final_layernorm", "output_norm"},
    {"model.layers.#.pre_ff_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mamba.b_layernorm", "blk.#.ssm_b_norm"},
    {"model.layers.#.mamba.c_layernorm", "blk.#.ssm_c_norm"},
    {"model.layers.#.mamba.dt_layernorm", "blk.#.ssm_dt_norm"},
    {"model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.down_proj", "blk.#.ffn_down"},
    {"model.layers.#.feed_forward.router", "blk.#.ffn_gate_inp"},
    {"model.layers.#.feed_forward.experts.*.gate_proj", "blk.#.ffn_gate_exps"},
    {"model.layers.#.feed_forward.experts.*.up_proj", "blk.#.ffn_up_exps"},
    {"model.layers.#.feed_forward.experts.*.down_proj", "blk.#.ffn_down_exps"},
};
// Files of the first release have ".moe." in names, and store a dense layer as one expert.
std::string jamba_name(const ModelConfig& config, std::string name) {
  constexpr std::string_view kOld = ".moe.";
  if (const size_t at = name.find(kOld); at != std::string::npos)
    name.replace(at, kOld.size(), ".feed_forward.");
  constexpr std::string_view kOnly = ".experts.0.";
  const size_t only = name.find(kOnly);
  constexpr std::string_view kLayers = "model.layers.";
  if (only == std::string::npos || !name.starts_with(kLayers)) return name;
  const auto layer = static_cast<uint32_t>(std::atoi(name.c_str() + kLayers.size()));
  const uint32_t offset = config.require_count({"expert_layer_offset"});
  const uint32_t period = config.require_size({"expert_layer_period"});
  if (layer < offset || (layer - offset) % period != 0) name.replace(only, kOnly.size(), ".");
  return name;
}
void jamba_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const uint32_t n_embd = config.n_embd();
  const uint32_t offset = config.require_count({"attn_layer_offset"});
  const uint32_t period = config.require_size({"attn_layer_period"});
  std::vector<uint32_t> heads;
  for (uint32_t i = 0; i < config.n_layers(); ++i)
    heads.push_back(i >= offset && (i - offset) % period == 0 ? config.n_kv_heads() : 0);
  keys.count("block_count", model.n_blocks());
  context_length(config, keys);
  keys.count("embedding_length", n_embd);
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("attention.head_count", config.n_heads());
  keys.counts("attention.head_count_kv", heads);
  keys.count("ssm.conv_kernel", config.count({"mamba_d_conv"}).value_or(4));
  keys.count("ssm.inner_size", uint64_t{config.require_size({"mamba_expand"})} * n_embd);
  keys.count("ssm.state_size", config.count({"mamba_d_state"}).value_or(16));
  const Document* rank = config.find("mamba_dt_rank");
  const bool has_rank = rank != nullptr && rank->is_number();  // the alternative is "auto"
  keys.count("ssm.time_step_rank",
             has_rank ? config.require_size({"mamba_dt_rank"}) : (n_embd + 15) / 16);
  keys.number("attention.layer_norm_rms_epsilon",
              config.number({"layer_norm_epsilon", "rms_norm_eps"}).value_or(1e-6));
  keys.count("expert_count", config.require_count({"num_local_experts", "num_experts"}));
  keys.count("expert_used_count",
             config.require_count({"num_experts_per_tok", "num_experts_per_token"}));
}

// Falcon H1 has multipliers for many tensors. GGUF stores the products.
float multiplier(const ModelConfig& config, std::string_view name) {
  return static_cast<float>(config.number({name}).value_or(1));
}
std::vector<double> multipliers(const ModelConfig& config, std::string_view name, size_t n) {
  const auto list = config.numbers(name);
  if (!list) return std::vector<double>(n, 1);
  if (list->size() != n) config.refuse(name, "has another number of elements");
  return *list;
}
void times_queries(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "attention_in_multiplier"));
}
void times_keys(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "key_multiplier"));
  times_queries(shaping);
}
void times_outputs(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "attention_out_multiplier"));
}
void times_gate(Shaping& shaping) {
  shaping.multiply(multipliers(shaping.config(), "mlp_multipliers", 2)[0]);
}
void times_down(Shaping& shaping) {
  shaping.multiply(multipliers(shaping.config(), "mlp_multipliers", 2)[1]);
}
void times_state_out(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "ssm_out_multiplier"));
}
// Rows of gates, inputs, B, C and time steps have different multipliers.
void times_state_in(Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  shaping.multiply(multiplier(config, "ssm_in_multiplier"));
  const std::vector<double> five = multipliers(config, "ssm_multipliers", 5);
  const uint64_t inner = config.require_size({"mamba_d_ssm"});
  const uint64_t states =
      uint64_t{config.require_size({"mamba_n_groups"})} * config.require_size({"mamba_d_state"});
  const uint64_t ends[] = {inner, 2 * inner, 2 * inner + states, 2 * (inner + states)};
  shaping.multiply_rows([=](uint64_t row) {
    size_t part = 0;
    while (part < std::size(ends) && row >= ends[part]) ++part;
    return static_cast<float>(five[part]);
  });
}
void times_embedding(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "embedding_multiplier"));
}
void times_output(Shaping& shaping) {
  shaping.multiply(multiplier(shaping.config(), "lm_head_multiplier"));
}
constexpr TensorRule kFalconH1Names[] = {
    {"model.embed_tokens", "token_embd", times_embedding},
    {"lm_head", "output", times_output},
    {"model.final_layernorm", "output_norm"},
    {"model.layers.#.pre_ff_layernorm.weight",
     "blk.#.ffn_norm"},  // the same name as in llama.cpp's files
    {"model.layers.#.self_attn.q_proj", "blk.#.attn_q", times_queries},
    {"model.layers.#.self_attn.k_proj", "blk.#.attn_k", times_keys},
    {"model.layers.#.self_attn.v_proj", "blk.#.attn_v", times_queries},
    {"model.layers.#.self_attn.o_proj", "blk.#.attn_output", times_outputs},
    {"model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate", times_gate},
    {"model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.down_proj", "blk.#.ffn_down", times_down},
    {"model.layers.#.mamba.in_proj", "blk.#.ssm_in", times_state_in},
    {"model.layers.#.mamba.out_proj", "blk.#.ssm_out", times_state_out},
};
void falcon_h1_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const uint32_t inner = config.require_size({"mamba_d_ssm"});
  const uint32_t head_len = config.require_size({"mamba_d_head"});
  if (inner % head_len != 0) config.refuse("mamba_d_head", "does not divide \"mamba_d_ssm\"");
  keys.count("embedding_length", config.n_embd());
  keys.count("ssm.conv_kernel", config.count({"mamba_d_conv"}).value_or(4));
  keys.count("ssm.inner_size", inner);
  keys.count("ssm.state_size", config.count({"mamba_d_state"}).value_or(128));
  keys.count("ssm.time_step_rank", inner / head_len);
  keys.count("ssm.group_count", config.require_size({"mamba_n_groups"}));
  keys.number("attention.layer_norm_rms_epsilon",
              config.number({"layer_norm_epsilon", "rms_norm_eps"}).value_or(1e-5));
  word_count(model, keys);
  keys.count("block_count", model.n_blocks());
  keys.count("context_length", config.count({"max_position_embeddings"}).value_or(0));
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  head_lengths(config.head_len(), keys);
  keys.number("rope.freq_base", config.rope_number("rope_theta").value_or(100000));
}

constexpr TensorRule kLfm2Names[] = {
    {"model.embedding_norm", "token_embd_norm"},
    {"model.layers.#.operator_norm", "blk.#.attn_norm"},
    {"model.layers.#.ffn_norm", "blk.#.ffn_norm"},
    {"model.layers.#.conv.in_proj", "blk.#.shortconv.in_proj"},
    {"model.layers.#.conv.conv", "blk.#.shortconv.conv", without_middle},
    {"model.layers.#.conv.out_proj", "blk.#.shortconv.out_proj"},
    {"model.layers.#.self_attn.out_proj", "blk.#.attn_output"},
    {"model.layers.#.self_attn.q_layernorm", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_layernorm", "blk.#.attn_k_norm"},
    {"model.layers.#.feed_forward.w1", "blk.#.ffn_gate"},
    {"model.layers.#.feed_forward.w3", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.w2", "blk.#.ffn_down"},
    {"model.layers.#.feed_forward.gate", "blk.#.ffn_gate_inp"},
    {"model.layers.#.feed_forward.expert_bias", "blk.#.exp_probs_b.bias"},
    {"model.layers.#.feed_forward.experts.*.w1", "blk.#.ffn_gate_exps"},
    {"model.layers.#.feed_forward.experts.*.w3", "blk.#.ffn_up_exps"},
    {"model.layers.#.feed_forward.experts.*.w2", "blk.#.ffn_down_exps"},
};
std::vector<bool> lfm2_attention(const ModelConfig& config) {
  std::vector<bool> layers = config.layers_of("full_attention");
  if (!layers.empty()) return layers;
  const auto list = config.counts("full_attn_idxs");
  if (!list) config.refuse("layer_types", "is missing");
  layers.resize(config.n_layers());
  for (const uint32_t i : *list)
    if (i < layers.size()) layers[i] = true;
  return layers;
}
void convolution_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys_with_words(model, keys);
  keys.counts("attention.head_count_kv", where(lfm2_attention(config), config.n_kv_heads()));
  keys.count("shortconv.l_cache", config.require_size({"conv_L_cache"}));
}
void lfm2_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  convolution_keys(model, keys);
  uint64_t length = config.require_size({"block_ff_dim", "intermediate_size"});
  if (config.flag("block_auto_adjust_ff_dim", true)) {
    length = 2 * length / 3;
    if (const auto factor = config.number({"block_ffn_dim_multiplier"}))
      length = static_cast<uint64_t>(*factor * static_cast<double>(length));
    const uint64_t multiple = config.require_size({"block_multiple_of"});
    length = (length + multiple - 1) / multiple * multiple;
  }
  keys.count("feed_forward_length", length);
}
void lfm2_moe_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  convolution_keys(model, keys);
  keys.count("expert_feed_forward_length", config.require_size({"moe_intermediate_size"}));
  keys.count("leading_dense_block_count", config.require_count({"num_dense_layers"}));
  keys.count("expert_gating_func", 2);
}

void taps(Shaping& shaping) {
  const std::vector<uint64_t>& shape = shaping.shape();
  if (shape.size() < 2) shaping.refuse("is not a matrix");
  shaping.reshape({1, shape.front(), 1, shape.back()});
}
constexpr TensorRule kKimiNames[] = {
    {"model.layers.#.self_attn.q_conv1d", "blk.#.ssm_conv1d_q", taps},
    {"model.layers.#.self_attn.k_conv1d", "blk.#.ssm_conv1d_k", taps},
    {"model.layers.#.self_attn.v_conv1d", "blk.#.ssm_conv1d_v", taps},
    {"model.layers.#.self_attn.A_log", "blk.#.ssm_a", minus_exp},
    {"model.layers.#.self_attn.dt_bias", "blk.#.ssm_dt.bias"},
    {"model.layers.#.self_attn.b_proj", "blk.#.ssm_beta"},
    {"model.layers.#.self_attn.f_a_proj", "blk.#.ssm_f_a"},
    {"model.layers.#.self_attn.f_b_proj", "blk.#.ssm_f_b"},
    {"model.layers.#.self_attn.g_a_proj", "blk.#.ssm_g_a"},
    {"model.layers.#.self_attn.g_b_proj", "blk.#.ssm_g_b"},
    {"model.layers.#.self_attn.o_norm", "blk.#.ssm_norm"},
    {"model.layers.#.block_sparse_moe.shared_experts.gate_proj", "blk.#.ffn_gate_shexp"},
    {"model.layers.#.block_sparse_moe.shared_experts.up_proj", "blk.#.ffn_up_shexp"},
    {"model.layers.#.block_sparse_moe.shared_experts.down_proj", "blk.#.ffn_down_shexp"},
};
void kimi_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys_with_words(model, keys);
  const ModelConfig linear = config.part("linear_attn_config");
  const auto full = linear.counts("full_attn_layers");  // numbered from 1
  if (!full) config.refuse("full_attn_layers", "is missing");
  std::vector<uint32_t> heads(config.n_layers());
  for (const uint32_t i : *full)
    if (i >= 1 && i <= heads.size()) heads[i - 1] = 1;
  keys.counts("attention.head_count_kv", heads);
  count_if(linear, {"short_conv_kernel_size"}, "ssm.conv_kernel", keys);
  count_if(linear, {"head_dim"}, "kda.head_dim", keys);
  count_if(config, {"q_lora_rank"}, "attention.q_lora_rank", keys);
  const uint32_t rank = config.require_size({"kv_lora_rank"});
  const uint32_t rotating = config.require_size({"qk_rope_head_dim"});
  keys.count("attention.kv_lora_rank", rank);
  keys.count("rope.dimension_count", rotating);
  keys.count("attention.key_length", uint64_t{rank} + rotating);
  keys.count("attention.key_length_mla",
             uint64_t{config.require_size({"qk_nope_head_dim"})} + rotating);
  keys.count("attention.value_length_mla", config.require_size({"v_head_dim"}));
  keys.count("expert_feed_forward_length", config.require_size({"moe_intermediate_size"}));
  keys.count("expert_shared_count", config.require_count({"num_shared_experts"}));
  keys.count("leading_dense_block_count", config.require_count({"first_k_dense_replace"}));
  keys.number("expert_weights_scale", config.require_number({"routed_scaling_factor"}));
}

}  // namespace

const LanguageFamily kMamba = {.classes = kMambaClasses,
                               .architecture = "mamba",
                               .rules = {mamba_names(), decoder_names()},
                               .keys = mamba_keys,
                               .defaults = R"({"tie_word_embeddings": true})",
                               .rename = mamba_name};
const LanguageFamily kMamba2 = {.classes = kMamba2Classes,
                                .architecture = "mamba2",
                                .rules = {mamba2_names(), decoder_names()},
                                .keys = mamba2_keys,
                                .rename = mamba_name};
const LanguageFamily kJamba = {.classes = kJambaClasses,
                               .architecture = "jamba",
                               .rules = {kJambaNames, mamba_names(), decoder_names()},
                               .keys = jamba_keys,
                               .rename = jamba_name};
const LanguageFamily kFalconH1 = {.classes = kFalconH1Classes,
                                  .architecture = "falcon-h1",
                                  .rules = {kFalconH1Names, mamba2_names(), decoder_names()},
                                  .keys = falcon_h1_keys};
const LanguageFamily kLfm2 = {.classes = kLfm2Classes,
                              .architecture = "lfm2",
                              .rules = {kLfm2Names, decoder_names()},
                              .keys = lfm2_keys,
                              .defaults = R"({"norm_eps": 1e-5, "block_multiple_of": 256,
                                              "block_ffn_dim_multiplier": 1.0,
                                              "rope_theta": 1000000.0})"};
const LanguageFamily kLfm2Moe = {.classes = kLfm2MoeClasses,
                                 .architecture = "lfm2moe",
                                 .rules = {kLfm2Names, decoder_names()},
                                 .keys = lfm2_moe_keys,
                                 .defaults = R"({"norm_eps": 1e-5, "rope_theta": 1000000.0})"};
const LanguageFamily kKimiLinear = {
    .classes = kKimiClasses,
    .architecture = "kimi-linear",
    .rules = {kKimiNames, mixtral_names(), latent_names(), decoder_names()},
    .keys = kimi_keys};

}  // namespace billow::convert
