// Qwen3-Next, Qwen 3.5 and 3.6: gated delta nets and attention. Qwen 3.5 stores value heads in the
// order of their key heads. GGUF stores the first value heads of all key heads, then the second,
// and so on.
#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kNextClasses[] = {"Qwen3NextForCausalLM"};
constexpr std::string_view kQwen35Classes[] = {"Qwen3_5ForCausalLM",
                                               "Qwen3_5ForConditionalGeneration"};
constexpr std::string_view kQwen35MoeClasses[] = {"Qwen3_5MoeForCausalLM",
                                                  "Qwen3_5MoeForConditionalGeneration"};

struct DeltaHeads {
  uint64_t n_keys, n_values, key_len, value_len;
};
DeltaHeads heads_of(const ModelConfig& config) {
  const DeltaHeads heads{config.require_size({"linear_num_key_heads"}),
                         config.require_size({"linear_num_value_heads"}),
                         config.require_size({"linear_key_head_dim"}),
                         config.require_size({"linear_value_head_dim"})};
  if (heads.n_values % heads.n_keys != 0)
    config.refuse("linear_num_value_heads", "is not a multiple of \"linear_num_key_heads\"");
  return heads;
}

// For each key head, the source stores its queries, keys, values and gates together.
void next_joint(Shaping& shaping) {
  const auto [n_keys, n_values, key_len, value_len] = heads_of(shaping.config());
  const uint64_t values_len = n_values / n_keys * value_len;
  const uint64_t group = 2 * key_len + 2 * values_len;
  if (shaping.n_rows() != n_keys * group) shaping.refuse("does not consist of whole heads");
  const uint64_t n_key_rows = n_keys * key_len;
  const auto row_of = [=](uint64_t at) {
    const bool is_value = at >= 2 * n_key_rows;
    const uint64_t len = is_value ? values_len : key_len;
    const uint64_t first = is_value ? 2 * key_len : at / n_key_rows * key_len;
    const uint64_t i = is_value ? at - 2 * n_key_rows : at % n_key_rows;
    return i / len * group + first + i % len;
  };
  shaping.gather(2 * n_key_rows + n_keys * values_len, row_of);
}
void next_gates(Shaping& shaping) {
  const auto [n_keys, n_values, key_len, value_len] = heads_of(shaping.config());
  const uint64_t values_len = n_values / n_keys * value_len;
  shaping.select(n_keys, 2 * key_len + values_len, values_len);
}
constexpr TensorRule kNextNames[] = {
    {"model.layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_qkv", next_joint},
    {"model.layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_gate", next_gates},
    {"model.layers.#.linear_attn.in_proj_ba", "blk.#.ssm_ba"},
    {"model.layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", without_middle},
    {"model.layers.#.linear_attn.A_log", "blk.#.ssm_a", minus_exp},
    {"model.layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias"},
    {"model.layers.#.linear_attn.norm", "blk.#.ssm_norm"},
    {"model.layers.#.linear_attn.out_proj", "blk.#.ssm_out"},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
};

// Orders value heads by their place among the value heads of a key head.
void order_values(Shaping& shaping, uint64_t first, uint64_t value_len) {
  const DeltaHeads heads = heads_of(shaping.config());
  shaping.swap_rows(first, heads.n_keys, heads.n_values / heads.n_keys, value_len);
}
void ordered_rows(Shaping& shaping) {
  order_values(shaping, 0, heads_of(shaping.config()).value_len);
}
void ordered_heads(Shaping& shaping) { order_values(shaping, 0, 1); }
void ordered_joint(Shaping& shaping) {
  const DeltaHeads heads = heads_of(shaping.config());
  order_values(shaping, 2 * heads.n_keys * heads.key_len, heads.value_len);
}
void ordered_taps(Shaping& shaping) {
  without_middle(shaping);
  ordered_joint(shaping);
}
void ordered_decays(Shaping& shaping) {
  ordered_heads(shaping);
  shaping.minus_exp();
}
void ordered_columns(Shaping& shaping) {
  const DeltaHeads heads = heads_of(shaping.config());
  shaping.swap_columns(heads.n_keys, heads.n_values / heads.n_keys, heads.value_len);
}
constexpr TensorRule kQwen35Names[] = {
    {"model.layers.#.linear_attn.in_proj_qkv", "blk.#.attn_qkv", ordered_joint},
    {"model.layers.#.linear_attn.in_proj_z", "blk.#.attn_gate", ordered_rows},
    {"model.layers.#.linear_attn.in_proj_a", "blk.#.ssm_alpha", ordered_heads},
    {"model.layers.#.linear_attn.in_proj_b", "blk.#.ssm_beta", ordered_heads},
    {"model.layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", ordered_taps},
    {"model.layers.#.linear_attn.A_log", "blk.#.ssm_a", ordered_decays},
    {"model.layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", ordered_heads},
    {"model.layers.#.linear_attn.norm", "blk.#.ssm_norm"},
    {"model.layers.#.linear_attn.out_proj", "blk.#.ssm_out", ordered_columns},
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
};

// Norm tensors contain the weight minus 1, except for the norms of the delta nets' heads.
void add_one(Shaping& shaping) {
  const std::string& name = shaping.name();
  if (name.ends_with("norm.weight") && !name.ends_with("linear_attn.norm.weight")) shaping.add(1);
}

// Renames the separate block that predicts further tokens to the layer after the last one.
std::string predicting_name(const ModelConfig& config, std::string name) {
  if (name.starts_with("model.mtp.")) name.erase(0, 6);
  if (!name.starts_with("mtp.")) return name;
  constexpr std::string_view kLayers = "mtp.layers.";
  if (name.starts_with(kLayers)) {
    const size_t end = name.find('.', kLayers.size());
    const std::string number = name.substr(kLayers.size(), end - kLayers.size());
    if (number != "0" || end == std::string::npos) return name;  // no published model has more
    return "model.layers." + std::to_string(config.n_layers()) + name.substr(end);
  }
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"mtp.fc.", "eh_proj."},
      {"mtp.pre_fc_norm_embedding.", "enorm."},
      {"mtp.pre_fc_norm_hidden.", "hnorm."},
      {"mtp.norm.", "shared_head.norm."}};
  for (const auto& [part, of_layer] : kParts) {
    if (!name.starts_with(part)) continue;
    return "model.layers." + std::to_string(config.n_layers()) + "." + std::string(of_layer) +
           name.substr(part.size());
  }
  return name;
}

void next_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  count_if(config, {"moe_intermediate_size"}, "expert_feed_forward_length", keys);
  count_if(config, {"shared_expert_intermediate_size"}, "expert_shared_feed_forward_length", keys);
  const DeltaHeads heads = heads_of(config);
  keys.count("ssm.conv_kernel", config.require_size({"linear_conv_kernel_dim"}));
  keys.count("ssm.state_size", heads.key_len);
  keys.count("ssm.group_count", heads.n_keys);
  keys.count("ssm.time_step_rank", heads.n_values);
  keys.count("ssm.inner_size", heads.value_len * heads.n_values);
  std::vector<bool> recurrent = config.layers_of("linear_attention");
  recurrent.resize(recurrent.empty() ? 0 : model.n_blocks());
  if (!recurrent.empty()) keys.flags("attention.recurrent_layers", recurrent);
  keys.count("full_attention_interval", config.count({"full_attention_interval"}).value_or(4));
  partial_rotation(config, 0.25, keys);
  if (model.n_predicting > 0) keys.count("nextn_predict_layers", model.n_predicting);
}
void qwen35_keys(const LanguageModel& model, KeyWriter& keys) {
  next_keys(model, keys);
  constexpr uint32_t kSections[] = {11, 11, 10, 0};
  if (!model.config.rope().contains("mrope_section"))
    keys.counts("rope.dimension_sections", kSections);
}

constexpr std::string_view kDefaults =
    R"({"head_dim": 256, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
        "rms_norm_eps": 1e-6})";

}  // namespace

const LanguageFamily kQwen3Next = {
    .classes = kNextClasses,
    .architecture = "qwen3next",
    .rules = {kNextNames, expert_names(), shared_expert_names(), head_norm_names(),
              predicting_names(), decoder_names()},
    .keys = next_keys,
    .defaults = kDefaults,
    .predicting = Predicting::kAppended,
    .rename = predicting_name,
    .finish = add_one};
const LanguageFamily kQwen35 = {
    .classes = kQwen35Classes,
    .architecture = "qwen35",
    .rules = {kQwen35Names, head_norm_names(), predicting_names(), decoder_names()},
    .keys = qwen35_keys,
    .defaults = kDefaults,
    .predicting = Predicting::kAppended,
    .rename = predicting_name,
    .finish = add_one};
const LanguageFamily kQwen35Moe = {
    .classes = kQwen35MoeClasses,
    .architecture = "qwen35moe",
    .rules = {kQwen35Names, expert_names(), shared_expert_names(), head_norm_names(),
              predicting_names(), decoder_names()},
    .keys = qwen35_keys,
    .defaults = kDefaults,
    .predicting = Predicting::kAppended,
    .rename = predicting_name,
    .finish = add_one};

}  // namespace billow::convert
