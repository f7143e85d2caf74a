// Nemotron H and Nemotron 3: each layer is Mamba 2, attention, a dense part or experts.
#include <algorithm>

#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kClasses[] = {"NemotronHForCausalLM"};

uint32_t attention_head_len(const ModelConfig& config) {
  return config.require_size({"head_dim", "attention_head_dim"});
}
// Heads do not rotate, so any order works. This order is llama.cpp's.
void paired(Shaping& shaping) { shaping.pair(attention_head_len(shaping.config())); }

constexpr TensorRule kNames[] = {
    {"backbone.layers.#.mixer.q_proj", "blk.#.attn_q", paired},
    {"backbone.layers.#.mixer.k_proj", "blk.#.attn_k", paired},
    {"backbone.layers.#.mixer.v_proj", "blk.#.attn_v"},
    {"backbone.layers.#.mixer.o_proj", "blk.#.attn_output"},
    {"backbone.layers.#.mixer.up_proj", "blk.#.ffn_up"},
    {"backbone.layers.#.mixer.down_proj", "blk.#.ffn_down"},
    {"backbone.layers.#.mixer.gate", "blk.#.ffn_gate_inp"},
    {"backbone.layers.#.mixer.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
    {"backbone.layers.#.mixer.experts.*.up_proj", "blk.#.ffn_up_exps"},
    {"backbone.layers.#.mixer.experts.*.down_proj", "blk.#.ffn_down_exps"},
    {"backbone.layers.#.mixer.shared_experts.up_proj", "blk.#.ffn_up_shexp"},
    {"backbone.layers.#.mixer.shared_experts.down_proj", "blk.#.ffn_down_shexp"},
    {"backbone.layers.#.mixer.fc1_latent_proj", "blk.#.ffn_latent_down"},
    {"backbone.layers.#.mixer.fc2_latent_proj", "blk.#.ffn_latent_up"},
    {"backbone.layers.#.enorm", "blk.#.nextn.enorm"},
    {"backbone.layers.#.hnorm", "blk.#.nextn.hnorm"},
    {"backbone.layers.#.eh_proj", "blk.#.nextn.eh_proj"},
    {"backbone.layers.#.final_layernorm", "blk.#.nextn.shared_head_norm"},
    {"backbone.layers.#.post_attention_norm", "blk.#.ffn_norm"},
};

// Returns one letter per layer: M for Mamba 2, * for attention, - for a dense part, E for experts.
std::string letters_of(const ModelConfig& config) {
  const Document* pattern = config.find({"hybrid_override_pattern", "layers_block_type"});
  if (pattern == nullptr) config.refuse("hybrid_override_pattern", "is missing");
  if (pattern->is_string()) return pattern->get<std::string>();
  const auto types = config.texts("layers_block_type");
  if (!types) config.refuse("layers_block_type", "must be a list");
  std::string letters;
  for (const std::string& type : *types) {
    constexpr std::pair<std::string_view, char> kTypes[] = {
        {"mamba", 'M'},     {"linear_attention", 'M'},
        {"attention", '*'}, {"full_attention", '*'},
        {"mlp", '-'},       {"moe", 'E'}};
    const auto* known = std::ranges::find(kTypes, type, &std::pair<std::string_view, char>::first);
    if (known == std::end(kTypes))
      config.refuse_unknown("layers of the type '" + type + "' are not known");
    letters += known->second;
  }
  return letters;
}
std::vector<uint32_t> of_letter(const std::string& letters, char letter, uint32_t value) {
  std::vector<uint32_t> values;
  for (const char c : letters) values.push_back(c == letter ? value : 0);
  return values;
}

bool has_experts(const ModelConfig& config) {
  return letters_of(config).find('E') != std::string::npos;
}
std::string_view architecture(const ModelConfig& config) {
  return has_experts(config) ? "nemotron_h_moe" : "nemotron_h";
}

void keys_of(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const std::string letters = letters_of(config);
  if (letters.size() != config.n_layers())
    config.refuse("hybrid_override_pattern", "must have a letter for each layer");
  standard_keys_with_words(model, keys);
  const uint32_t head_len = attention_head_len(config);
  head_lengths(head_len, keys);
  keys.count("rope.dimension_count", head_len);
  keys.count("ssm.conv_kernel", config.require_size({"conv_kernel"}));
  keys.count("ssm.state_size", config.require_size({"ssm_state_size"}));
  keys.count("ssm.group_count", config.require_size({"n_groups"}));
  const uint32_t n_heads = config.require_size({"mamba_num_heads"});
  keys.count("ssm.inner_size", uint64_t{n_heads} * config.require_size({"mamba_head_dim"}));
  keys.count("ssm.time_step_rank", n_heads);
  keys.counts("attention.head_count_kv", of_letter(letters, '*', config.n_kv_heads()));
  keys.flag("rope.scaling.finetuned", false);
  keys.count("context_length", uint64_t{1} << 20);
  if (!has_experts(config)) {
    keys.counts("feed_forward_length",
                of_letter(letters, '-', config.require_size({"intermediate_size"})));
    return;
  }
  const uint32_t length = config.require_size({"moe_intermediate_size"});
  keys.counts("feed_forward_length", of_letter(letters, 'E', length));
  keys.count("expert_used_count", config.require_size({"num_experts_per_tok"}));
  keys.count("expert_feed_forward_length", length);
  keys.count("expert_shared_feed_forward_length",
             config.require_count({"moe_shared_expert_intermediate_size"}));
  keys.count("expert_count", config.require_size({"n_routed_experts"}));
  keys.count("expert_shared_count", config.require_count({"n_shared_experts"}));
  keys.flag("expert_weights_norm", config.flag("norm_topk_prob"));
  keys.number("expert_weights_scale", config.require_number({"routed_scaling_factor"}));
  keys.count("expert_group_count", config.require_count({"n_group"}));
  count_if(config, {"moe_latent_size"}, "moe_latent_size", keys);
}

// Drops the blocks that predict further tokens. They combine an attention layer and an expert
// layer, which no engine supports.
std::string name_of(const ModelConfig& /*config*/, std::string name) {
  if (name.starts_with("mtp.")) return {};
  constexpr std::string_view kNew = "model.";
  if (name.starts_with(kNew)) name.replace(0, kNew.size(), "backbone.");
  return name;
}

}  // namespace

const LanguageFamily kNemotronH = {.classes = kClasses,
                                   .architecture = "nemotron_h",
                                   .rules = {kNames, mamba2_names(), decoder_names()},
                                   .keys = keys_of,
                                   .defaults = R"({"layer_norm_epsilon": 1e-5})",
                                   .activations = "relu2 silu",
                                   .rename = name_of,
                                   .architecture_of = architecture};

}  // namespace billow::convert
