#include "convert/families/keys.h"
#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace billow::convert {
namespace {

// Expert gating functions and their GGUF numbers.
struct Gating {
  std::string_view name;
  uint32_t number;
};
constexpr Gating kGatings[] = {{"softmax", 1}, {"sigmoid", 2}, {"sqrtsoftplus", 4}};

double original_context(const ModelConfig& config) {
  if (const auto given = config.rope_number("original_max_position_embeddings")) return *given;
  return config.require_size({"max_position_embeddings", "n_positions"});
}

void yarn_keys(const ModelConfig& config, KeyWriter& keys) {
  keys.text("rope.scaling.type", "yarn");
  keys.number("rope.scaling.factor", *config.rope_number("factor"));
  keys.count("rope.scaling.original_context_length",
             static_cast<uint64_t>(original_context(config)));
  const auto copy = [&](std::string_view from, std::string_view to) {
    if (const auto value = config.rope_number(from)) keys.number(to, *value);
  };
  copy("extrapolation_factor", "rope.scaling.yarn_ext_factor");
  copy(config.rope_number("attention_factor") ? "attention_factor" : "attn_factor",
       "rope.scaling.yarn_attn_factor");
  copy("beta_fast", "rope.scaling.yarn_beta_fast");
  copy("beta_slow", "rope.scaling.yarn_beta_slow");
}

void scaling_keys(const LanguageModel& model, KeyWriter& keys) {
  // Types without scaling, and types whose scaling is stored as tensors.
  constexpr std::string_view kOthers[] = {"default", "llama3", "mrope", "none"};
  const ModelConfig& config = model.config;
  const std::string type = config.rope_type();
  const auto factor = config.rope_number("factor");
  if (factor && !(*factor > 0)) config.refuse("rope_scaling", "has a factor that is not above 0");
  if (type == "linear" && factor) {
    keys.text("rope.scaling.type", "linear");
    keys.number("rope.scaling.factor", *factor);
  } else if (type == "yarn" && factor) {
    yarn_keys(config, keys);
  } else if (type == "su" || type == "longrope") {
    keys.text("rope.scaling.type", "longrope");
  } else if (type != model.own_rotation && std::ranges::find(kOthers, type) == std::end(kOthers)) {
    config.refuse_unknown(
        fmt::format("a rotation of the type '{}' is not supported (known: default, linear, llama3, "
                    "longrope, yarn)",
                    type));
  }
}

void section_keys(const ModelConfig& config, KeyWriter& keys) {
  const auto at = config.rope().find("mrope_section");
  if (at == config.rope().end() || !at->is_array()) return;
  std::vector<uint32_t> sections;
  for (const Document& size : *at) {
    if (!size.is_number_unsigned() || sections.size() == 4)
      config.refuse("mrope_section", "must be an array of at most four sizes");
    sections.push_back(size.get<uint32_t>());
  }
  sections.resize(4);
  keys.counts("rope.dimension_sections", sections);
}

void expert_keys(const ModelConfig& config, KeyWriter& keys) {
  count_if(config, {"num_local_experts", "num_experts", "n_routed_experts"}, "expert_count", keys);
  count_if(config, {"num_experts_per_tok", "num_experts_per_token", "top_k_experts"},
           "expert_used_count", keys);
  count_if(config, {"n_group"}, "expert_group_count", keys);
  count_if(config, {"topk_group"}, "expert_group_used_count", keys);
  const auto gating =
      config.text({"score_function", "scoring_func", "score_func", "moe_router_activation",
                   "moe_router_activation_func", "expert_selection_fn"});
  if (!gating) return;
  const auto* known = std::ranges::find(kGatings, *gating, &Gating::name);
  if (known == std::end(kGatings)) {
    config.refuse_unknown(fmt::format(
        "expert gating by '{}' is not supported (known: softmax, sigmoid, sqrtsoftplus)", *gating));
  }
  keys.count("expert_gating_func", known->number);
}

}  // namespace

void count_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys) {
  if (const auto value = config.count(names)) keys.count(key, *value);
}
void number_if(const ModelConfig& config, Spellings names, std::string_view key, KeyWriter& keys) {
  if (const auto value = config.number(names)) keys.number(key, *value);
}
void positive_if(const ModelConfig& config, Spellings names, std::string_view key,
                 KeyWriter& keys) {
  const auto value = config.number(names);
  if (!value) return;
  if (!(*value > 0)) config.refuse(*names.begin(), "must be more than 0");
  keys.number(key, *value);
}
void flag_if(const ModelConfig& config, std::string_view name, std::string_view key,
             KeyWriter& keys) {
  if (config.has(name)) keys.flag(key, config.flag(name));
}

void word_count(const LanguageModel& model, KeyWriter& keys) {
  keys.count("vocab_size", model.n_tokens);
}

void context_length(const ModelConfig& config, KeyWriter& keys) {
  count_if(config,
           {"max_position_embeddings", "n_ctx", "n_positions", "max_length", "max_sequence_length",
            "model_max_length", "max_seq_len", "seq_length"},
           "context_length", keys);
}

void head_lengths(uint32_t length, KeyWriter& keys) {
  keys.count("attention.key_length", length);
  keys.count("attention.value_length", length);
}

void partial_rotation(const ModelConfig& config, double otherwise, KeyWriter& keys) {
  const double factor = config.rope_number("partial_rotary_factor").value_or(otherwise);
  const double n = config.head_len() * factor;
  if (!(n >= 2) || n > config.head_len()) {
    config.refuse("partial_rotary_factor", "must be above 0 and at most 1");
  }
  keys.count("rope.dimension_count", static_cast<uint64_t>(n));
}

void window_keys(const ModelConfig& config, KeyWriter& keys) {
  count_if(config, {"sliding_window"}, "attention.sliding_window", keys);
  const std::vector<bool> layers = config.layers_of("sliding_attention");
  if (!layers.empty()) keys.flags("attention.sliding_window_pattern", layers);
}

void rope_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  scaling_keys(model, keys);
  section_keys(config, keys);
  if (const auto base = config.rope_number("rope_theta")) keys.number("rope.freq_base", *base);
  const auto local = config.rope().find("sliding_attention");
  if (local == config.rope().end() || !local->is_object()) return;
  if (const auto base = number_in(*local, "rope_theta")) keys.number("rope.freq_base_swa", *base);
}

void standard_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  keys.count("block_count", model.n_blocks());
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  if (const auto lengths = config.counts("intermediate_size")) {
    keys.counts("feed_forward_length", *lengths);
  } else {
    count_if(config,
             {"prefix_dense_intermediate_size", "dense_intermediate_size", "intermediate_size",
              "n_inner", "hidden_dim"},
             "feed_forward_length", keys);
  }
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  rope_keys(model, keys);
  positive_if(config, {"rms_norm_eps", "norm_eps"}, "attention.layer_norm_rms_epsilon", keys);
  positive_if(config, {"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"},
              "attention.layer_norm_epsilon", keys);
  expert_keys(config, keys);
  if (config.has("head_dim")) head_lengths(config.head_len(), keys);
}

void standard_keys_with_words(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  word_count(model, keys);
}

void llama_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys_with_words(model, keys);
  keys.count("rope.dimension_count", model.config.head_len());
}

std::vector<uint32_t> where(const std::vector<bool>& layers, uint32_t value) {
  std::vector<uint32_t> values;
  for (const bool has : layers) values.push_back(has ? value : 0);
  return values;
}

// Llama 3.1's rule: pairs with low frequencies are divided by the factor, pairs with high
// frequencies are not, and pairs between them get a value in between. The field names are those of
// Hugging Face's library: modeling_rope_utils.py, _compute_llama3_parameters.
std::vector<float> llama3_divisors(const ModelConfig& config) {
  if (config.rope_type() != "llama3") return {};
  const auto positive = [&](const char* name, double otherwise) {
    const double value = config.rope_number(name).value_or(otherwise);
    if (!(value > 0) || !std::isfinite(value)) config.refuse(name, "must be more than 0");
    return value;
  };
  const double factor = positive("factor", 8);
  const double low = positive("low_freq_factor", 1);
  const double high = positive("high_freq_factor", 4);
  const double original = positive("original_max_position_embeddings", 8192);
  const double base = positive("rope_theta", 10000);
  if (high <= low) config.refuse("high_freq_factor", "must be more than \"low_freq_factor\"");
  const uint32_t head_len = config.head_len();
  std::vector<float> divisors;
  for (uint32_t i = 0; i < head_len; i += 2) {
    const double frequency = std::pow(base, -static_cast<double>(i) / head_len);
    const double turns = original * frequency / (2 * std::numbers::pi);
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return divisors;
}

std::vector<ComputedTensor> long_rope_divisors(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const Document& rope = config.full_rope();
  std::vector<ComputedTensor> tensors;
  constexpr std::array<std::pair<const char*, const char*>, 2> kLists = {
      {{"long_factor", "rope_factors_long.weight"}, {"short_factor", "rope_factors_short.weight"}}};
  for (const auto& [field, name] : kLists) {
    const auto at = rope.find(field);
    if (at == rope.end() || !at->is_array()) continue;
    ComputedTensor& tensor = tensors.emplace_back();
    tensor.name = name;
    for (const Document& value : *at) {
      if (!value.is_number()) config.refuse(field, "must be a list of numbers");
      tensor.values.push_back(value.get<float>());
    }
  }
  if (tensors.empty()) return tensors;
  if (tensors.size() != 2 || tensors[0].values.size() != tensors[1].values.size()) {
    config.refuse("long_factor", "and \"short_factor\" must be lists of one length");
  }
  const double original = original_context(config);
  const double scale = config.require_size({"max_position_embeddings", "n_positions"}) / original;
  const bool is_yarn = config.rope_type() == "yarn";
  double factor = 1;
  if (scale > 1)
    factor =
        is_yarn ? 0.1 * std::log(scale) + 1 : std::sqrt(1 + std::log(scale) / std::log(original));
  keys.number("rope.scaling.attn_factor", factor);
  return tensors;
}

}  // namespace billow::convert
