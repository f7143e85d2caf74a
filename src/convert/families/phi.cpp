// Phi 1 to 4, and Phi 3.5 MoE.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kPhi2Classes[] = {"PhiForCausalLM"};
constexpr std::string_view kPhi3Classes[] = {"Phi3ForCausalLM"};
constexpr std::string_view kPhiMoeClasses[] = {"PhiMoEForCausalLM", "PhimoeForCausalLM"};

constexpr TensorRule kPhi2Names[] = {
    {"model.final_layernorm", "output_norm"},
    {"model.layers.#.self_attn.dense", "blk.#.attn_output"},
    {"model.layers.#.mlp.fc1", "blk.#.ffn_up"},
    {"model.layers.#.mlp.fc2", "blk.#.ffn_down"},
};
uint64_t rotating(const ModelConfig& config, double otherwise) {
  const double factor = config.rope_number("partial_rotary_factor").value_or(otherwise);
  return static_cast<uint64_t>(factor * config.n_embd()) / config.n_heads();
}
void phi2_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  keys.count("feed_forward_length", uint64_t{4} * config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_heads());
  keys.number("attention.layer_norm_epsilon",
              config.require_number({"layer_norm_epsilon", "layer_norm_eps"}));
  keys.count("rope.dimension_count", rotating(config, 0.5));
}

constexpr TensorRule kPhi3Names[] = {
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_qkv"},
    {"model.layers.#.mlp.gate_up_proj", "blk.#.ffn_up"},
};
void phi3_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  context_length(config, keys);
  const auto original = config.rope_number("original_max_position_embeddings");
  if (!original) config.refuse("original_max_position_embeddings", "is missing");
  keys.count("rope.scaling.original_context_length", static_cast<uint64_t>(*original));
  keys.count("embedding_length", config.n_embd());
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("block_count", model.n_blocks());
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.number("attention.layer_norm_rms_epsilon", config.require_number({"rms_norm_eps"}));
  keys.count("rope.dimension_count", rotating(config, 1));
  keys.number("rope.freq_base", config.rope_number("rope_theta").value_or(10000));
  keys.count("attention.sliding_window", config.count({"sliding_window"}).value_or(0));
}
void phimoe_keys(const LanguageModel& model, KeyWriter& keys) {
  phi3_keys(model, keys);
  count_if(model.config, {"num_experts_per_tok", "num_experts_per_token"}, "expert_used_count",
           keys);
  count_if(model.config, {"num_local_experts", "num_experts"}, "expert_count", keys);
}

}  // namespace

const LanguageFamily kPhi2 = {
    .classes = kPhi2Classes,
    .architecture = "phi2",
    .rules = {kPhi2Names, decoder_names()},
    .keys = phi2_keys,
    .defaults = R"({"max_position_embeddings": 2048, "layer_norm_eps": 1e-5})",
    .activations = "gelu_new gelu"};
const LanguageFamily kPhi3 = {
    .classes = kPhi3Classes,
    .architecture = "phi3",
    .rules = {kPhi3Names, decoder_names()},
    .keys = phi3_keys,
    .defaults = R"({"original_max_position_embeddings": 4096, "max_position_embeddings": 4096,
                    "rms_norm_eps": 1e-5})",
    .computed = long_rope_divisors};
const LanguageFamily kPhiMoe = {
    .classes = kPhiMoeClasses,
    .architecture = "phimoe",
    .rules = {mixtral_names(), decoder_names()},
    .keys = phimoe_keys,
    .defaults = R"({"original_max_position_embeddings": 4096, "rms_norm_eps": 1e-5})",
    .computed = long_rope_divisors};

}  // namespace billow::convert
