// Qwen 2, 3 and their mixtures of experts, with or without pictures.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kQwen2Classes[] = {"Qwen2ForCausalLM"};
constexpr std::string_view kQwen2MoeClasses[] = {"Qwen2MoeForCausalLM"};
constexpr std::string_view kQwen2VlClasses[] = {
    "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration", "Qwen2_5OmniModel"};
constexpr std::string_view kQwen3Classes[] = {"Qwen3ForCausalLM"};
constexpr std::string_view kQwen3MoeClasses[] = {"Qwen3MoeForCausalLM"};
constexpr std::string_view kQwen3VlClasses[] = {"Qwen3VLForConditionalGeneration"};
constexpr std::string_view kQwen3VlMoeClasses[] = {"Qwen3VLMoeForConditionalGeneration"};
constexpr std::string_view kDots1Classes[] = {"Dots1ForCausalLM"};

void moe_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  count_if(model.config, {"moe_intermediate_size"}, "expert_feed_forward_length", keys);
  count_if(model.config, {"shared_expert_intermediate_size"}, "expert_shared_feed_forward_length",
           keys);
}

// Writes the number of layers that receive picture features. The text part needs only this number.
void deepstack(const ModelConfig& config, KeyWriter& keys) {
  uint64_t n = 0;
  if (config.has("vision_config")) {
    const ModelConfig vision = config.part("vision_config");
    if (const auto layers = vision.counts("deepstack_visual_indexes")) n = layers->size();
  }
  keys.count("n_deepstack_layers", n);
}
void qwen3_vl_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  deepstack(model.config, keys);
}
void qwen3_vl_moe_keys(const LanguageModel& model, KeyWriter& keys) {
  moe_keys(model, keys);
  deepstack(model.config, keys);
}
// Files of Qwen 3 VL store stacked experts transposed.
constexpr TensorRule kTurnedExperts[] = {
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", turned_first_half},
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", turned_second_half},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", turned},
};

void dots1_keys(const LanguageModel& model, KeyWriter& keys) {
  moe_keys(model, keys);
  const ModelConfig& config = model.config;
  keys.count("leading_dense_block_count", config.require_count({"first_k_dense_replace"}));
  keys.count("expert_shared_count", config.require_count({"n_shared_experts"}));
  keys.number("expert_weights_scale", config.require_number({"routed_scaling_factor"}));
  keys.flag("expert_weights_norm", config.flag("norm_topk_prob"));
}

}  // namespace

const LanguageFamily kQwen2 = {.classes = kQwen2Classes,
                               .architecture = "qwen2",
                               .rules = {decoder_names()},
                               .keys = standard_keys};
const LanguageFamily kQwen2Moe = {.classes = kQwen2MoeClasses,
                                  .architecture = "qwen2moe",
                                  .rules = {expert_names(), shared_expert_names(), decoder_names()},
                                  .keys = moe_keys};
const LanguageFamily kQwen2Vl = {.classes = kQwen2VlClasses,
                                 .architecture = "qwen2vl",
                                 .rules = {decoder_names()},
                                 .keys = standard_keys};
const LanguageFamily kQwen3 = {.classes = kQwen3Classes,
                               .architecture = "qwen3",
                               .rules = {head_norm_names(), decoder_names()},
                               .keys = standard_keys,
                               .defaults = R"({"head_dim": 128})"};
const LanguageFamily kQwen3Moe = {.classes = kQwen3MoeClasses,
                                  .architecture = "qwen3moe",
                                  .rules = {expert_names(), head_norm_names(), decoder_names()},
                                  .keys = moe_keys};
const LanguageFamily kQwen3Vl = {.classes = kQwen3VlClasses,
                                 .architecture = "qwen3vl",
                                 .rules = {head_norm_names(), decoder_names()},
                                 .keys = qwen3_vl_keys,
                                 .defaults = R"({"head_dim": 128})"};
const LanguageFamily kQwen3VlMoe = {
    .classes = kQwen3VlMoeClasses,
    .architecture = "qwen3vlmoe",
    .rules = {kTurnedExperts, expert_names(), head_norm_names(), decoder_names()},
    .keys = qwen3_vl_moe_keys};
const LanguageFamily kDots1 = {
    .classes = kDots1Classes,
    .architecture = "dots1",
    .rules = {expert_names(), shared_expert_names(), head_norm_names(), decoder_names()},
    .keys = dots1_keys,
    .defaults = R"({"scoring_func": "sigmoid"})"};

}  // namespace billow::convert
