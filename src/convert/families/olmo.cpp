// OLMo 1 to 3 and OLMoE.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kOlmoClasses[] = {"OlmoForCausalLM"};
constexpr std::string_view kOlmo2Classes[] = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"};
constexpr std::string_view kOlmoeClasses[] = {"OlmoeForCausalLM"};

void olmo_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  keys.number("attention.layer_norm_epsilon", 1e-5);
  number_if(model.config, {"clip_qkv"}, "attention.clamp_kqv", keys);
}
void olmo2_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  const ModelConfig& config = model.config;
  if (!config.has("sliding_window")) return;
  window_keys(config, keys);
  if (config.has("layer_types")) return;
  std::vector<bool> windows;
  for (uint32_t i = 0; i < config.n_layers(); ++i) windows.push_back((i + 1) % 4 != 0);
  keys.flags("attention.sliding_window_pattern", windows);
}
void olmoe_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  keys.number("attention.layer_norm_rms_epsilon", 1e-5);
}

}  // namespace

const LanguageFamily kOlmo = {.classes = kOlmoClasses,
                              .architecture = "olmo",
                              .rules = {paired_names(), decoder_names()},
                              .keys = olmo_keys};
const LanguageFamily kOlmo2 = {.classes = kOlmo2Classes,
                               .architecture = "olmo2",
                               .rules = {post_norm_names(), head_norm_names(), decoder_names()},
                               .keys = olmo2_keys};
const LanguageFamily kOlmoe = {.classes = kOlmoeClasses,
                               .architecture = "olmoe",
                               .rules = {expert_names(), head_norm_names(), decoder_names()},
                               .keys = olmoe_keys};

}  // namespace billow::convert
