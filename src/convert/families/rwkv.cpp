// RWKV 7 and ARWKV 7. Low-rank matrices are stored transposed, except in files of the library
// flash-linear-attention, which names them "_lora".
#include <algorithm>
#include <cmath>

#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kRwkv7Classes[] = {"RWKV7ForCausalLM", "Rwkv7ForCausalLM"};
constexpr std::string_view kARwkv7Classes[] = {"RwkvHybridForCausalLM"};

void replace(std::string& text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// Converts both spellings to one: "layers.#.attention.w1". Names "...mix.3" are the tensors that
// mix with the previous token, numbered in the order of the GGUF file.
std::string name_of(const ModelConfig& /*config*/, std::string name) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"blocks", "layers"},       {"ffn_norm", "ln2"},  {"ffn", "feed_forward"},
      {"self_attn", "attention"}, {"attn_norm", "ln1"}, {"attn", "attention"},
      {"time_mixer.", ""},        {"g_norm", "ln_x"}};
  for (const auto& [from, to] : kWords) {
    if (from == "attn" && name.find("attention") != std::string::npos) continue;
    replace(name, from, to);
  }
  constexpr std::pair<std::string_view, std::string_view> kLow[] = {
      {"_lora.lora.0.weight", "1.straight"},
      {"_lora.lora.2.weight", "2.straight"},
      {"_lora.lora.2.bias", "0"}};
  for (const auto& [from, to] : kLow) replace(name, from, to);
  constexpr std::string_view kMix = "attention.x_";
  const size_t at = name.find(kMix);
  if (at != std::string::npos && at + kMix.size() + 1 == name.size()) {
    constexpr std::string_view kOrder = "rwkvag";
    const size_t number = kOrder.find(name.back());
    if (number != std::string_view::npos)
      name.replace(at, std::string::npos, "attention.mix." + std::to_string(number));
  }
  // The first layer mixes its values with themselves, so these tensors have no effect there. GGUF
  // requires them, and they get a copy of the rate's tensors.
  constexpr std::string_view kFirst = "layers.0.attention.";
  const size_t first = name.find(kFirst);
  if (first == std::string::npos) return name;
  const size_t part = first + kFirst.size();
  const bool is_numbered = part + 1 < name.size() && name[part + 1] >= '0' && name[part + 1] <= '2';
  if (is_numbered && name[part] == 'v') return {};
  if (is_numbered && name[part] == 'a') name.insert(part, "first_");
  return name;
}

void turned_flat(Shaping& shaping) { shaping.turn(); }

// Returns the rank of config.json. If it is missing, returns the rank that the library computes.
uint32_t rank_of(const ModelConfig& config, Spellings names, double exponent, double factor) {
  if (const auto rank = config.count(names)) return *rank;
  const double steps = std::nearbyint(std::pow(config.n_embd(), exponent) * factor / 32);
  return 32 * static_cast<uint32_t>(std::max(1.0, steps));
}
void rwkv7_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  keys.count("context_length", uint64_t{1} << 20);
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.number("attention.layer_norm_epsilon",
              config.require_number({"layer_norm_epsilon", "norm_eps"}));
  keys.count("wkv.head_size", config.require_size({"head_size", "head_dim"}));
  keys.count("attention.decay_lora_rank",
             rank_of(config, {"lora_rank_decay", "decay_low_rank_dim"}, 0.5, 1.8));
  keys.count("attention.iclr_lora_rank",
             rank_of(config, {"lora_rank_iclr", "a_low_rank_dim"}, 0.5, 1.8));
  keys.count("attention.value_residual_mix_lora_rank",
             rank_of(config, {"lora_rank_value_residual_mix", "v_low_rank_dim"}, 0.5, 1.3));
  keys.count("attention.gate_lora_rank",
             rank_of(config, {"lora_rank_gate", "gate_low_rank_dim"}, 0.8, 0.6));
  keys.count("feed_forward_length",
             config.count({"intermediate_size"}).value_or(4 * config.n_embd()));
  keys.count("attention.head_count", 0);
}
void arwkv7_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  if (config.count({"wkv_version"}).value_or(0) != 7)
    config.refuse_unknown("\"wkv_version\" must be 7");
  const bool is_gated = config.flag("wkv_has_gate");
  keys.count("context_length", uint64_t{1} << 20);
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.number("attention.layer_norm_rms_epsilon", config.require_number({"rms_norm_eps"}));
  keys.count("wkv.head_size", config.require_size({"head_size"}));
  keys.count("attention.decay_lora_rank", 64);
  keys.count("attention.iclr_lora_rank", 64);
  keys.count("attention.value_residual_mix_lora_rank", 32);
  keys.count("attention.gate_lora_rank", is_gated ? 128 : 0);
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("token_shift_count", 1);
  keys.count("attention.head_count", 0);
}

constexpr TensorRule kNames[] = {
    {"model.embeddings", "token_embd"},
    {"model.norm", "output_norm"},
    {"model.layers.#.pre_norm", "token_embd_norm"},
    {"model.layers.#.ln1", "blk.#.attn_norm"},
    {"model.layers.#.ln2", "blk.#.attn_norm_2"},
    {"model.layers.#.attention.mix.*", "blk.#.time_mix_lerp_fused.weight"},
    {"model.layers.#.attention.x_x", "blk.#.time_mix_lerp_fused.weight"},
    {"model.layers.#.attention.r_proj", "blk.#.time_mix_receptance"},
    {"model.layers.#.attention.k_proj", "blk.#.time_mix_key"},
    {"model.layers.#.attention.v_proj", "blk.#.time_mix_value"},
    {"model.layers.#.attention.o_proj", "blk.#.time_mix_output"},
    {"model.layers.#.attention.receptance", "blk.#.time_mix_receptance"},
    {"model.layers.#.attention.key", "blk.#.time_mix_key"},
    {"model.layers.#.attention.value", "blk.#.time_mix_value"},
    {"model.layers.#.attention.output", "blk.#.time_mix_output"},
    {"model.layers.#.attention.ln_x", "blk.#.time_mix_ln"},
    {"model.layers.#.attention.k_k", "blk.#.time_mix_k_k.weight", flat},
    {"model.layers.#.attention.k_a", "blk.#.time_mix_k_a.weight", flat},
    {"model.layers.#.attention.r_k", "blk.#.time_mix_r_k.weight", flat},
    {"model.layers.#.attention.w0", "blk.#.time_mix_w0.weight", flat},
    {"model.layers.#.attention.a0", "blk.#.time_mix_a0.weight", flat},
    {"model.layers.#.attention.v0", "blk.#.time_mix_v0.weight", flat},
    {"model.layers.#.attention.w1.straight", "blk.#.time_mix_w1.weight"},
    {"model.layers.#.attention.w2.straight", "blk.#.time_mix_w2.weight"},
    {"model.layers.#.attention.a1.straight", "blk.#.time_mix_a1.weight"},
    {"model.layers.#.attention.a2.straight", "blk.#.time_mix_a2.weight"},
    {"model.layers.#.attention.v1.straight", "blk.#.time_mix_v1.weight"},
    {"model.layers.#.attention.v2.straight", "blk.#.time_mix_v2.weight"},
    {"model.layers.#.attention.g1.straight", "blk.#.time_mix_g1.weight"},
    {"model.layers.#.attention.g2.straight", "blk.#.time_mix_g2.weight"},
    {"model.layers.#.attention.w1", "blk.#.time_mix_w1.weight", turned_flat},
    {"model.layers.#.attention.w2", "blk.#.time_mix_w2.weight", turned_flat},
    {"model.layers.#.attention.a1", "blk.#.time_mix_a1.weight", turned_flat},
    {"model.layers.#.attention.a2", "blk.#.time_mix_a2.weight", turned_flat},
    {"model.layers.#.attention.v1", "blk.#.time_mix_v1.weight", turned_flat},
    {"model.layers.#.attention.v2", "blk.#.time_mix_v2.weight", turned_flat},
    {"model.layers.#.attention.g1", "blk.#.time_mix_g1.weight", turned_flat},
    {"model.layers.#.attention.g2", "blk.#.time_mix_g2.weight", turned_flat},
    // In the first layer, the rate's tensors replace those of the values, which have no effect
    // there.
    {"model.layers.#.attention.first_a0", "blk.#.time_mix_a0.weight", flat},
    {"model.layers.#.attention.first_a0", "blk.#.time_mix_v0.weight", flat},
    {"model.layers.#.attention.first_a1.straight", "blk.#.time_mix_a1.weight"},
    {"model.layers.#.attention.first_a1.straight", "blk.#.time_mix_v1.weight"},
    {"model.layers.#.attention.first_a2.straight", "blk.#.time_mix_a2.weight"},
    {"model.layers.#.attention.first_a2.straight", "blk.#.time_mix_v2.weight"},
    {"model.layers.#.attention.first_a1", "blk.#.time_mix_a1.weight", turned_flat},
    {"model.layers.#.attention.first_a1", "blk.#.time_mix_v1.weight", turned_flat},
    {"model.layers.#.attention.first_a2", "blk.#.time_mix_a2.weight", turned_flat},
    {"model.layers.#.attention.first_a2", "blk.#.time_mix_v2.weight", turned_flat},
    {"model.layers.#.feed_forward.x_k", "blk.#.channel_mix_lerp_k.weight", flat},
    {"model.layers.#.feed_forward.key", "blk.#.channel_mix_key"},
    {"model.layers.#.feed_forward.value", "blk.#.channel_mix_value"},
};

}  // namespace

const LanguageFamily kRwkv7 = {.classes = kRwkv7Classes,
                               .architecture = "rwkv7",
                               .rules = {kNames, decoder_names()},
                               .keys = rwkv7_keys,
                               .activations = "sqrelu",
                               .rename = name_of};
const LanguageFamily kARwkv7 = {.classes = kARwkv7Classes,
                                .architecture = "arwkv7",
                                .rules = {kNames, decoder_names()},
                                .keys = arwkv7_keys,
                                .rename = name_of};

}  // namespace billow::convert
