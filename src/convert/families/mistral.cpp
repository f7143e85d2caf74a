// Ministral 3 and Mistral Small 3 and 4, with or without pictures.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kMistral3Classes[] = {"Mistral3ForConditionalGeneration",
                                                 "Ministral3ForCausalLM"};
constexpr std::string_view kMistral4Classes[] = {"Mistral4ForCausalLM"};

void mistral3_keys(const LanguageModel& model, KeyWriter& keys) {
  llama_keys(model, keys);
  if (const auto all = model.config.rope_number("mscale_all_dim"))
    keys.number("rope.scaling.yarn_log_multiplier", *all);
  if (const auto beta = model.config.rope_number("llama_4_scaling_beta"))
    keys.number("attention.temperature_scale", *beta);
}

// Queries far beyond the original context are scaled up. llama.cpp's converter does not write these
// keys.
void mistral4_keys(const LanguageModel& model, KeyWriter& keys) {
  latent_attention_keys(model, keys);
  if (const auto beta = model.config.rope_number("llama_4_scaling_beta")) {
    keys.number("attention.temperature_scale", *beta);
    if (const auto original = model.config.rope_number("original_max_position_embeddings"))
      keys.count("attention.temperature_length", static_cast<uint64_t>(*original));
  }
}
constexpr TensorRule kMistral4Names[] = {
    {"model.layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_up_exps.weight"},
    {"model.layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight"},
};

const LanguageFamily& actual(const ModelConfig& config) {
  return config.text({"model_type"}).value_or("") == "mistral4" ? kMistral4 : kMistral3;
}

}  // namespace

const LanguageFamily kMistral3 = {.classes = kMistral3Classes,
                                  .architecture = "mistral3",
                                  .rules = {paired_names(), decoder_names()},
                                  .keys = mistral3_keys,
                                  .actual = actual};
const LanguageFamily kMistral4 = {.classes = kMistral4Classes,
                                  .architecture = "mistral4",
                                  .rules = {kMistral4Names, latent_names(), expert_names(),
                                            shared_expert_names(), decoder_names()},
                                  .keys = mistral4_keys};

}  // namespace billow::convert
