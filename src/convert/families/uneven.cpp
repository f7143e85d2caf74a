// MiniCPM, whose parts are scaled, and DeciLM, whose layers differ in size.
#include <cmath>

#include "base/json.h"
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kMiniCpmClasses[] = {"MiniCPMForCausalLM"};
constexpr std::string_view kDeciClasses[] = {"DeciLMForCausalLM"};

void minicpm_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  keys.number("embedding_scale", config.require_number({"scale_emb"}));
  keys.number("residual_scale",
              config.require_number({"scale_depth"}) / std::sqrt(config.n_layers()));
  keys.number("logit_scale",
              static_cast<double>(config.n_embd()) / config.require_number({"dim_model_base"}));
}
std::vector<ComputedTensor> minicpm_divisors(const LanguageModel& model, KeyWriter& keys) {
  if (model.config.rope_type() == "default") return {};
  return long_rope_divisors(model, keys);
}

struct DeciLayer {
  uint32_t n_heads, n_kv_heads, n_feed_forward;
};
// Computes the length from "ffn_mult": two thirds, rounded up to a multiple of 256.
uint32_t feed_forward_of(double multiplier, uint32_t n_embd) {
  const auto length = static_cast<uint32_t>(2 * multiplier * n_embd / 3);
  return (length + 255) / 256 * 256;
}
std::vector<DeciLayer> deci_layers(const ModelConfig& config) {
  const Document* blocks = config.find("block_configs");
  std::vector<DeciLayer> layers;
  if (blocks == nullptr || !blocks->is_array() || blocks->size() != config.n_layers())
    config.refuse("block_configs", "must be a list with an element for each layer");
  for (const Document& block : *blocks) {
    if (!block.is_object()) config.refuse("block_configs", "must be a list of objects");
    const ModelConfig layer(block);
    const ModelConfig attention = layer.part("attention");
    const ModelConfig feed_forward = layer.part("ffn");
    DeciLayer& sizes = layers.emplace_back();
    if (const auto in_group = attention.count({"n_heads_in_group"}); in_group && *in_group != 0) {
      sizes.n_heads = config.n_heads();
      sizes.n_kv_heads = config.n_heads() / *in_group;
    } else if (attention.flag("replace_with_linear")) {
      sizes.n_heads = config.n_heads();
    }
    sizes.n_feed_forward =
        feed_forward_of(feed_forward.number({"ffn_mult"}).value_or(0), config.n_embd());
  }
  return layers;
}
void deci_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const uint32_t head_len = config.n_embd() / config.n_heads();
  word_count(model, keys);
  keys.count("rope.dimension_count", config.head_len());
  if (!config.has("block_configs")) {
    standard_keys(model, keys);
    if (const auto heads = config.counts("num_key_value_heads_per_layer"))
      keys.counts("attention.head_count_kv", *heads);
    return;
  }
  std::vector<uint32_t> heads;
  std::vector<uint32_t> kv_heads;
  std::vector<uint32_t> lengths;
  for (const DeciLayer& layer : deci_layers(config)) {
    heads.push_back(layer.n_heads);
    kv_heads.push_back(layer.n_kv_heads);
    lengths.push_back(layer.n_feed_forward);
  }
  if (const auto base = config.rope_number("rope_theta")) keys.number("rope.freq_base", *base);
  keys.counts("attention.head_count_kv", kv_heads);
  keys.counts("attention.head_count", heads);
  keys.counts("feed_forward_length", lengths);
  keys.count("block_count", model.n_blocks());
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  keys.number("attention.layer_norm_rms_epsilon", config.require_number({"rms_norm_eps"}));
  head_lengths(head_len, keys);
}

}  // namespace

const LanguageFamily kMiniCpm = {.classes = kMiniCpmClasses,
                                 .architecture = "minicpm",
                                 .rules = {paired_names(), decoder_names()},
                                 .keys = minicpm_keys,
                                 .computed = minicpm_divisors};
const LanguageFamily kDeci = {.classes = kDeciClasses,
                              .architecture = "deci",
                              .rules = {paired_names(), decoder_names()},
                              .keys = deci_keys};

}  // namespace billow::convert
