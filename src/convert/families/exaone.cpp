// EXAONE 4 and K-EXAONE. EXAONE 3 is in this folder's llama.cpp.
#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kExaone4Classes[] = {"Exaone4ForCausalLM"};
constexpr std::string_view kMoeClasses[] = {"ExaoneMoEForCausalLM", "ExaoneMoeForCausalLM"};

// Returns which layers have a window, from "layer_types" or "sliding_window_pattern". The latter is
// either the letters of one period, such as "LLLG" (L: a window), or the length of a period whose
// last layer has no window.
std::vector<bool> windows_of(const ModelConfig& config) {
  std::vector<bool> windows = config.layers_of("sliding_attention");
  if (!windows.empty()) return windows;
  const Document* pattern = config.find("sliding_window_pattern");
  if (pattern == nullptr) return windows;
  if (pattern->is_string()) {
    const auto text = pattern->get<std::string>();
    for (uint32_t i = 0; !text.empty() && i < config.n_layers(); ++i)
      windows.push_back(text[i % text.size()] == 'L');
    return windows;
  }
  const uint32_t period = config.require_size({"sliding_window_pattern"});
  for (uint32_t i = 0; i < config.n_layers(); ++i) windows.push_back((i + 1) % period != 0);
  return windows;
}
void exaone4_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys_with_words(model, keys);
  if (!config.has("sliding_window")) return;
  keys.count("attention.sliding_window", config.require_count({"sliding_window"}));
  const std::vector<bool> windows = windows_of(config);
  if (!windows.empty()) keys.flags("attention.sliding_window_pattern", windows);
}

void moe_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  exaone4_keys(model, keys);
  const uint32_t length = config.require_size({"moe_intermediate_size"});
  const uint32_t n_shared = config.require_count({"num_shared_experts"});
  keys.count("expert_feed_forward_length", length);
  keys.count("expert_shared_count", n_shared);
  keys.count("expert_shared_feed_forward_length", uint64_t{length} * n_shared);
  keys.number("expert_weights_scale", config.require_number({"routed_scaling_factor"}));
  keys.flag("expert_weights_norm", config.flag("norm_topk_prob"));
  keys.count("leading_dense_block_count",
             config.count({"first_k_dense_replace", "first_last_k_dense_replace"}).value_or(0));
  keys.count("nextn_predict_layers", model.n_predicting);
  keys.text("rope.scaling.type", "none");
}
constexpr TensorRule kMoeNames[] = {
    {"model.layers.#.mlp.e_score_correction_bias", "blk.#.exp_probs_b.bias"},
};
std::string predicting_name(const ModelConfig& config, std::string name) {
  if (!name.starts_with("mtp.")) return name;
  constexpr std::pair<std::string_view, std::string_view> kParts[] = {
      {"mtp.layers.0.", ""},
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

}  // namespace

const LanguageFamily kExaone4 = {.classes = kExaone4Classes,
                                 .architecture = "exaone4",
                                 .rules = {post_norm_names(), head_norm_names(), decoder_names()},
                                 .keys = exaone4_keys};
const LanguageFamily kExaoneMoe = {
    .classes = kMoeClasses,
    .architecture = "exaone-moe",
    .rules = {kMoeNames, expert_names(), shared_expert_names(), head_norm_names(),
              predicting_names(), decoder_names()},
    .keys = moe_keys,
    .defaults = R"({"scoring_func": "sigmoid"})",
    .predicting = Predicting::kAppended,
    .rename = predicting_name};

}  // namespace billow::convert
