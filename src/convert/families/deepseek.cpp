// DeepSeek V2 and V3, Kimi K2, GLM 4.7 Flash: latent attention. All heads share one row of keys and
// values, so the GGUF file has one KV head.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kDeepseekClasses[] = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
                                                 "KimiK25ForConditionalGeneration",
                                                 "KimiVLForConditionalGeneration"};
constexpr std::string_view kGlmLiteClasses[] = {"Glm4MoeLiteForCausalLM"};

void glm_lite_keys(const LanguageModel& model, KeyWriter& keys) {
  latent_attention_keys(model, keys);
  if (model.n_predicting > 0) keys.count("nextn_predict_layers", model.n_predicting);
}

}  // namespace

void latent_attention_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys_with_words(model, keys);
  keys.count("attention.head_count_kv", 1);
  const bool has_experts = config.has("n_routed_experts");
  keys.count("leading_dense_block_count",
             config.count({"first_k_dense_replace"}).value_or(has_experts ? 0 : config.n_layers()));
  count_if(config, {"q_lora_rank"}, "attention.q_lora_rank", keys);
  const uint32_t rank = config.count({"kv_lora_rank"}).value_or(512);
  const uint32_t rotating = config.require_size({"qk_rope_head_dim"});
  keys.count("attention.kv_lora_rank", rank);
  keys.count("attention.key_length", uint64_t{rank} + rotating);
  keys.count("attention.value_length", rank);
  keys.count("attention.key_length_mla",
             uint64_t{config.require_size({"qk_nope_head_dim"})} + rotating);
  keys.count("attention.value_length_mla", config.require_size({"v_head_dim"}));
  keys.count("expert_feed_forward_length",
             config.require_size({"moe_intermediate_size", "intermediate_size"}));
  count_if(config, {"n_routed_experts"}, "expert_count", keys);
  keys.count("expert_shared_count", config.count({"n_shared_experts"}).value_or(0));
  number_if(config, {"routed_scaling_factor"}, "expert_weights_scale", keys);
  if (config.flag("norm_topk_prob")) keys.flag("expert_weights_norm", true);
  keys.count("rope.dimension_count", rotating);
  if (const auto all = config.rope_number("mscale_all_dim"))
    keys.number("rope.scaling.yarn_log_multiplier", 0.1 * *all);
}

const LanguageFamily kDeepseek2 = {
    .classes = kDeepseekClasses,
    .architecture = "deepseek2",
    .rules = {latent_names(), expert_names(), shared_expert_names(), decoder_names()},
    .keys = latent_attention_keys,
    .defaults = R"({"rms_norm_eps": 1e-6})",
    .predicting = Predicting::kLeftOut};
const LanguageFamily kGlm4MoeLite = {
    .classes = kGlmLiteClasses,
    .architecture = "deepseek2",
    .rules = {latent_names(), expert_names(), shared_expert_names(), predicting_names(),
              decoder_names()},
    .keys = glm_lite_keys,
    .defaults = R"({"scoring_func": "sigmoid", "rms_norm_eps": 1e-5})",
    .predicting = Predicting::kAppended};

}  // namespace billow::convert
