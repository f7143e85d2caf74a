// Gemma 3n and 4: each layer has its own input, and some layers share keys and values.
#include <cmath>
#include <limits>

#include <algorithm>

#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"
#include "convert/normal_quantile.h"

namespace billow::convert {
namespace {

constexpr std::string_view kGemma3nClasses[] = {"Gemma3nForCausalLM",
                                                "Gemma3nForConditionalGeneration"};
constexpr std::string_view kGemma4Classes[] = {
    "Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForConditionalGeneration"};

constexpr TensorRule kLayerInputs[] = {
    {"model.embed_tokens_per_layer", "per_layer_token_embd"},
    {"model.per_layer_model_projection", "per_layer_model_proj"},
    {"model.per_layer_projection_norm", "per_layer_proj_norm"},
    {"model.layers.#.per_layer_input_gate", "blk.#.inp_gate"},
    {"model.layers.#.per_layer_projection", "blk.#.proj"},
    {"model.layers.#.post_per_layer_input_norm", "blk.#.post_norm"},
};

// Pads token tables that are shorter than the vocabulary: they have no rows for pictures and
// sounds.
void padded(Shaping& shaping) {
  const uint32_t n = shaping.config().count({"vocab_size"}).value_or(262400);
  if (shaping.n_rows() < n) shaping.resize_rows(n);
}
constexpr TensorRule kGemma3nNames[] = {
    {"model.embed_tokens", "token_embd", padded},
    {"model.embed_tokens_per_layer", "per_layer_token_embd", padded},
    {"model.altup_projections.#", "altup_proj"},
    {"model.altup_unembed_projections.#", "altup_unembd_proj"},
    {"model.layers.#.altup.correct_output_scale", "blk.#.altup_correct_scale.weight"},
    {"model.layers.#.altup.correction_coefs", "blk.#.altup_correct_coef"},
    {"model.layers.#.altup.prediction_coefs", "blk.#.altup_predict_coef"},
    {"model.layers.#.altup.modality_router", "blk.#.altup_router"},
    {"model.layers.#.altup.router_norm", "blk.#.altup_router_norm"},
    {"model.layers.#.laurel.linear_left", "blk.#.laurel_l"},
    {"model.layers.#.laurel.linear_right", "blk.#.laurel_r"},
    {"model.layers.#.laurel.post_laurel_norm", "blk.#.laurel_post_norm"},
};
void gemma3n_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  gemma3_keys(model, keys);
  if (config.require_size({"altup_num_inputs"}) != 4)
    config.refuse_unknown("\"altup_num_inputs\" must be 4");
  if (!config.counts("intermediate_size")) {
    const std::vector<uint32_t> lengths(config.n_layers(),
                                        config.require_size({"intermediate_size"}));
    keys.counts("feed_forward_length", lengths);
  }
  keys.count("altup.active_idx", config.require_count({"altup_active_idx"}));
  keys.count("altup.num_inputs", 4);
  keys.count("embedding_length_per_layer_input",
             config.require_size({"hidden_size_per_layer_input"}));
  keys.count("attention.shared_kv_layers", config.require_count({"num_kv_shared_layers"}));
  // A share of the gate values is dropped. The scale is the number of deviations above the mean.
  std::vector<float> scales;
  const auto shares = config.numbers("activation_sparsity_pattern");
  for (uint32_t layer = 0; layer < config.n_layers(); ++layer) {
    double share = layer < 10 ? 0.95 : 0;
    if (shares && layer < shares->size()) share = (*shares)[layer];
    if (!shares && config.has("activation_sparsity_pattern"))
      share = config.require_number({"activation_sparsity_pattern"});
    scales.push_back(static_cast<float>(normal_quantile(share)));
  }
  keys.numbers("activation_sparsity_scale", scales);
  window_keys(config, keys);
}

constexpr TensorRule kGemma4Names[] = {
    {"model.layers.#.layer_scalar", "blk.#.layer_output_scale.weight"},
    {"model.layers.#.post_feedforward_layernorm_1", "blk.#.post_ffw_norm_1"},
    {"model.layers.#.post_feedforward_layernorm_2", "blk.#.post_ffw_norm_2"},
    {"model.layers.#.pre_feedforward_layernorm_2", "blk.#.pre_ffw_norm_2"},
    {"model.layers.#.router.proj", "blk.#.ffn_gate_inp"},
    {"model.layers.#.router.scale", "blk.#.ffn_gate_inp.scale"},
    {"model.layers.#.router.per_expert_scale", "blk.#.ffn_down_exps.scale"},
    {"model.layers.#.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight"},
    {"model.layers.#.experts.down_proj", "blk.#.ffn_down_exps.weight"},
};
uint32_t full_head_len(const ModelConfig& config) {
  return config.require_size({"global_head_dim"});
}
void gemma4_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  gemma3_keys(model, keys);
  const uint32_t n_shared = config.count({"num_kv_shared_layers"}).value_or(0);
  const uint32_t n_layers = config.n_layers();
  keys.count("attention.shared_kv_layers", n_shared);
  keys.count("embedding_length_per_layer_input",
             config.count({"hidden_size_per_layer_input"}).value_or(0));
  const std::vector<bool> windows = config.layers_of("sliding_attention");
  if (windows.empty()) config.refuse("layer_types", "is missing");
  keys.flags("attention.sliding_window_pattern", windows);
  head_lengths(full_head_len(config), keys);
  keys.count("attention.key_length_swa", config.head_len());
  keys.count("attention.value_length_swa", config.head_len());
  count_if(config, {"expert_intermediate_size", "moe_intermediate_size"},
           "expert_feed_forward_length", keys);
  if (config.flag("use_double_wide_mlp")) {
    const uint32_t length = config.require_size({"intermediate_size"});
    std::vector<uint32_t> lengths(n_layers, length);
    for (uint32_t i = n_layers - std::min(n_shared, n_layers); i < n_layers; ++i)
      lengths[i] = 2 * length;
    keys.counts("feed_forward_length", lengths);
  }
  if (const auto n_full = config.count({"num_global_key_value_heads"})) {
    std::vector<uint32_t> heads;
    for (const bool is_window : windows) heads.push_back(is_window ? config.n_kv_heads() : *n_full);
    keys.counts("attention.head_count_kv", heads);
  }
  keys.count("rope.dimension_count", full_head_len(config));
  const auto factor = number_in(config.rope(), "partial_rotary_factor").value_or(1);
  keys.count("rope.dimension_count_swa", static_cast<uint64_t>(config.head_len() * factor));
}
// Layers without a window rotate only some pairs of a head. The other pairs get a divisor that is
// so large that they do not rotate.
std::vector<ComputedTensor> gemma4_divisors(const LanguageModel& model, KeyWriter& /*keys*/) {
  const ModelConfig& config = model.config;
  if (config.rope_type() != "proportional")
    config.refuse_unknown("a rotation of another type than 'proportional' is not supported here");
  const uint32_t n_pairs = full_head_len(config) / 2;
  const double factor = config.rope_number("partial_rotary_factor").value_or(1);
  const auto n_rotating = static_cast<uint32_t>(full_head_len(config) * factor / 2);
  std::vector<float> divisors(n_pairs, 1e30F);
  std::fill_n(divisors.begin(), std::min(n_rotating, n_pairs), 1.0F);
  return {{"rope_freqs.weight", divisors}};
}

constexpr std::string_view kGemma3nDefaults =
    R"({"head_dim": 256, "num_key_value_heads": 2, "num_attention_heads": 8, "hidden_size": 2048,
        "intermediate_size": 16384, "num_hidden_layers": 35, "max_position_embeddings": 32768,
        "rms_norm_eps": 1e-6, "sliding_window": 512, "final_logit_softcapping": 30.0,
        "altup_active_idx": 0, "altup_num_inputs": 4, "hidden_size_per_layer_input": 256,
        "num_kv_shared_layers": 15, "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0,
        "vocab_size": 262400})";
constexpr std::string_view kGemma4Defaults =
    R"({"head_dim": 256, "global_head_dim": 512, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
        "sliding_window": 512, "max_position_embeddings": 131072})";

}  // namespace

const LanguageFamily kGemma3n = {.classes = kGemma3nClasses,
                                 .architecture = "gemma3n",
                                 .rules = {kGemma3nNames, kLayerInputs, sandwich_norm_names(),
                                           head_norm_names(), decoder_names()},
                                 .keys = gemma3n_keys,
                                 .defaults = kGemma3nDefaults,
                                 .activations = "gelu_pytorch_tanh"};
const LanguageFamily kGemma4 = {.classes = kGemma4Classes,
                                .architecture = "gemma4",
                                .rules = {kGemma4Names, kLayerInputs, sandwich_norm_names(),
                                          head_norm_names(), decoder_names()},
                                .keys = gemma4_keys,
                                .defaults = kGemma4Defaults,
                                .activations = "gelu_pytorch_tanh",
                                .own_rotation = "proportional",
                                .computed = gemma4_divisors};

}  // namespace billow::convert
