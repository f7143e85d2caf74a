// Granite 3 and 4, and Bamba: dense, with experts, or with Mamba 2 in most layers. The checkpoints
// store the gate and up matrices of experts as one matrix.
#include <algorithm>

#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kGraniteClasses[] = {"GraniteForCausalLM"};
constexpr std::string_view kMoeClasses[] = {"GraniteMoeForCausalLM", "GraniteMoeSharedForCausalLM"};
constexpr std::string_view kHybridClasses[] = {"GraniteMoeHybridForCausalLM", "BambaForCausalLM"};

bool has_experts(const ModelConfig& config) {
  return config.count({"num_local_experts"}).value_or(0) != 0;
}

constexpr TensorRule kMoeNames[] = {
    {"model.layers.#.block_sparse_moe.input_linear", "blk.#.ffn_gate_exps", first_half},
    {"model.layers.#.block_sparse_moe.input_linear", "blk.#.ffn_up_exps", second_half},
    {"model.layers.#.block_sparse_moe.output_linear", "blk.#.ffn_down_exps"},
    {"model.layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp"},
    {"model.layers.#.shared_mlp.input_linear", "blk.#.ffn_gate_shexp", first_half},
    {"model.layers.#.shared_mlp.input_linear", "blk.#.ffn_up_shexp", second_half},
    {"model.layers.#.shared_mlp.output_linear", "blk.#.ffn_down_shexp"},
    // Without experts, the shared part is the whole feed-forward part; see dense_name().
    {"model.layers.#.only_mlp.input_linear", "blk.#.ffn_gate", first_half},
    {"model.layers.#.only_mlp.input_linear", "blk.#.ffn_up", second_half},
    {"model.layers.#.only_mlp.output_linear", "blk.#.ffn_down"},
    {"model.layers.#.feed_forward.gate_proj", "blk.#.ffn_gate"},
    {"model.layers.#.feed_forward.up_proj", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.down_proj", "blk.#.ffn_down"},
    {"model.layers.#.pre_ff_layernorm", "blk.#.ffn_norm"},
    {"model.final_layernorm", "output_norm"},
};
std::string dense_name(const ModelConfig& config, std::string name) {
  constexpr std::string_view kShared = ".shared_mlp.";
  const size_t at = name.find(kShared);
  if (at != std::string::npos && !has_experts(config))
    name.replace(at, kShared.size(), ".only_mlp.");
  return name;
}

void scales(const ModelConfig& config, KeyWriter& keys) {
  constexpr std::pair<std::string_view, std::string_view> kScales[] = {
      {"attention_multiplier", "attention.scale"},
      {"embedding_multiplier", "embedding_scale"},
      {"residual_multiplier", "residual_scale"},
      {"logits_scaling", "logit_scale"}};
  for (const auto& [field, key] : kScales) {
    const auto value = config.number({field});
    if (value && *value != 0) keys.number(key, *value);
  }
}
void granite_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys_with_words(model, keys);
  keys.count("rope.dimension_count", model.config.head_len());
  scales(model.config, keys);
}
void moe_keys(const LanguageModel& model, KeyWriter& keys) {
  granite_keys(model, keys);
  const auto shared = model.config.count({"shared_intermediate_size"});
  if (shared && *shared != 0) keys.count("expert_shared_feed_forward_length", *shared);
}

// Returns which layers have attention, from "layer_types", from a list, or from a period.
std::vector<bool> attention_layers(const ModelConfig& config) {
  std::vector<bool> layers = config.layers_of("attention");
  if (!layers.empty()) return layers;
  layers.resize(config.n_layers());
  if (const auto list = config.counts("attn_layer_indices"); list && !list->empty()) {
    for (const uint32_t i : *list)
      if (i < layers.size()) layers[i] = true;
    return layers;
  }
  const uint32_t period = config.require_size({"attn_layer_period"});
  const uint32_t offset = config.require_count({"attn_layer_offset"});
  for (size_t i = 0; i < layers.size(); ++i) layers[i] = i % period == offset;
  return layers;
}
bool has_states(const ModelConfig& config) {
  const std::vector<bool> attention = attention_layers(config);
  return std::ranges::find(attention, false) != attention.end();
}
void hybrid_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  moe_keys(model, keys);
  const uint32_t n_heads = config.require_size({"mamba_n_heads"});
  keys.count("ssm.conv_kernel", config.require_size({"mamba_d_conv"}));
  keys.count("ssm.state_size", config.require_size({"mamba_d_state"}));
  keys.count("ssm.group_count", config.require_size({"mamba_n_groups"}));
  keys.count("ssm.inner_size", uint64_t{config.require_size({"mamba_expand"})} * config.n_embd());
  keys.count("ssm.time_step_rank", n_heads);
  count_if(config, {"attn_rotary_emb"}, "rope.dimension_count", keys);
  keys.counts("attention.head_count_kv", where(attention_layers(config), config.n_kv_heads()));
  const bool rotates = config.class_name() == "BambaForCausalLM" || !has_states(config);
  keys.flag("rope.scaling.finetuned", rotates);
  if (!rotates) keys.count("context_length", uint64_t{1} << 20);
}
std::string_view hybrid_architecture(const ModelConfig& config) {
  if (has_states(config)) return "granitehybrid";
  return config.count({"num_experts_per_tok", "num_experts_per_token"}).value_or(0) != 0
             ? "granitemoe"
             : "granite";
}

constexpr std::string_view kDefaults = R"({"rms_norm_eps": 1e-6})";

}  // namespace

const LanguageFamily kGranite = {.classes = kGraniteClasses,
                                 .architecture = "granite",
                                 .rules = {paired_names(), decoder_names()},
                                 .keys = granite_keys,
                                 .defaults = kDefaults};
const LanguageFamily kGraniteMoe = {.classes = kMoeClasses,
                                    .architecture = "granitemoe",
                                    .rules = {paired_names(), kMoeNames, decoder_names()},
                                    .keys = moe_keys,
                                    .defaults = kDefaults,
                                    .rename = dense_name};
const LanguageFamily kGraniteHybrid = {
    .classes = kHybridClasses,
    .architecture = "granitehybrid",
    .rules = {paired_names(), kMoeNames, mamba2_names(), decoder_names()},
    .keys = hybrid_keys,
    .defaults = R"({"rms_norm_eps": 1e-6, "mamba_n_groups": 1, "mamba_expand": 2,
                    "mamba_d_conv": 4, "mamba_d_state": 256, "mamba_n_heads": 128})",
    .rename = dense_name,
    .architecture_of = hybrid_architecture};

}  // namespace billow::convert
