// Llama and similar models: Mistral, Mixtral, InternLM 2 and 3, SmolLM 3, AFM, Apertus, Seed-OSS,
// ERNIE 4.5, EXAONE 3. Granite is in granite.cpp.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kLlamaClasses[] = {
    "LlamaForCausalLM",   "LLaMAForCausalLM",     "MistralForCausalLM",
    "MixtralForCausalLM", "InternLM3ForCausalLM", "LlavaForConditionalGeneration"};
constexpr std::string_view kSmollm3Classes[] = {"SmolLM3ForCausalLM"};
constexpr std::string_view kArceeClasses[] = {"ArceeForCausalLM"};
constexpr std::string_view kApertusClasses[] = {"ApertusForCausalLM"};
constexpr std::string_view kSeedOssClasses[] = {"SeedOssForCausalLM"};
constexpr std::string_view kErnieClasses[] = {"Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"};
constexpr std::string_view kInternLm2Classes[] = {"InternLM2ForCausalLM"};
constexpr std::string_view kExaoneClasses[] = {"ExaoneForCausalLM"};

constexpr TensorRule kSeedOssNames[] = {
    {"model.layers.#.post_attention_layernorm", "blk.#.post_attention_norm"},
};

// Writes the head length, except for Mixtral. If config.json omits it, head_len() calculates it.
void first_keys(const LanguageModel& model, KeyWriter& keys) {
  llama_keys(model, keys);
  if (model.config.class_name() != "MixtralForCausalLM")
    head_lengths(model.config.head_len(), keys);
}

// GGUF stores the numbers of xIELU as metadata: one number of each kind per layer.
constexpr TensorRule kApertusNames[] = {
    {"model.layers.#.attention_layernorm", "blk.#.attn_norm"},
    {"model.layers.#.feedforward_layernorm", "blk.#.ffn_norm"},
    {"model.layers.#.mlp.act_fn.alpha_n", ""},
    {"model.layers.#.mlp.act_fn.alpha_p", ""},
    {"model.layers.#.mlp.act_fn.beta", ""},
    {"model.layers.#.mlp.act_fn.eps", ""},
};
void apertus_keys(const LanguageModel& model, KeyWriter& keys) {
  llama_keys(model, keys);
  for (const std::string_view part : {"alpha_n", "alpha_p", "beta", "eps"}) {
    std::vector<float> values;
    for (uint32_t layer = 0; layer < model.config.n_layers(); ++layer) {
      const std::string name =
          "model.layers." + std::to_string(layer) + ".mlp.act_fn." + std::string(part);
      values.push_back(model.weights.number(name));
    }
    keys.writer().set_floats("xielu." + std::string(part), values);
  }
}

// InternLM 2: splits a matrix that stores queries, key and value of each group together.
uint64_t group_rows(const Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  return uint64_t{config.n_heads() / config.n_kv_heads() + 2} * config.head_len();
}
void grouped(Shaping& shaping, uint64_t first, uint64_t n_heads) {
  const uint64_t head_len = shaping.config().head_len();
  const uint64_t n_groups = shaping.n_rows() / group_rows(shaping);
  shaping.select(n_groups == 0 ? 1 : n_groups, first * head_len, n_heads * head_len);
}
uint64_t queries_of_group(const Shaping& shaping) {
  return shaping.config().n_heads() / shaping.config().n_kv_heads();
}
void grouped_queries(Shaping& shaping) {
  grouped(shaping, 0, queries_of_group(shaping));
  pair_heads(shaping);
}
void grouped_keys(Shaping& shaping) {
  grouped(shaping, queries_of_group(shaping), 1);
  pair_heads(shaping);
}
void grouped_values(Shaping& shaping) { grouped(shaping, queries_of_group(shaping) + 1, 1); }
constexpr TensorRule kInternLm2Names[] = {
    {"model.tok_embeddings", "token_embd"},
    {"model.norm", "output_norm"},
    {"output", "output"},
    {"model.layers.#.attention_norm", "blk.#.attn_norm"},
    {"model.layers.#.attention.wqkv", "blk.#.attn_q", grouped_queries},
    {"model.layers.#.attention.wqkv", "blk.#.attn_k", grouped_keys},
    {"model.layers.#.attention.wqkv", "blk.#.attn_v", grouped_values},
    {"model.layers.#.attention.wo", "blk.#.attn_output"},
    {"model.layers.#.ffn_norm", "blk.#.ffn_norm"},
    {"model.layers.#.feed_forward.w1", "blk.#.ffn_gate"},
    {"model.layers.#.feed_forward.w3", "blk.#.ffn_up"},
    {"model.layers.#.feed_forward.w2", "blk.#.ffn_down"},
};

constexpr TensorRule kExaoneNames[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.#.ln_1", "blk.#.attn_norm"},
    {"transformer.h.#.attn.attention.q_proj", "blk.#.attn_q"},
    {"transformer.h.#.attn.attention.k_proj", "blk.#.attn_k"},
    {"transformer.h.#.attn.attention.v_proj", "blk.#.attn_v"},
    {"transformer.h.#.attn.attention.out_proj", "blk.#.attn_output"},
    {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
    {"transformer.h.#.mlp.c_fc_0", "blk.#.ffn_gate"},
    {"transformer.h.#.mlp.c_fc_1", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
};
void exaone_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  partial_rotation(model.config, 1, keys);
}

// ERNIE 4.5: files of the first release store Q, K and V as one matrix, and up and gate as another.
void first_rows(Shaping& shaping, uint64_t first, uint64_t n) { shaping.select(1, first, n); }
void joint_queries(Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  first_rows(shaping, 0, uint64_t{config.n_heads()} * config.head_len());
}
void joint_keys(Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  first_rows(shaping, uint64_t{config.n_heads()} * config.head_len(),
             uint64_t{config.n_kv_heads()} * config.head_len());
}
void joint_values(Shaping& shaping) {
  const ModelConfig& config = shaping.config();
  first_rows(shaping, uint64_t{config.n_heads() + config.n_kv_heads()} * config.head_len(),
             uint64_t{config.n_kv_heads()} * config.head_len());
}
constexpr TensorRule kErnieNames[] = {
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_q", joint_queries},
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_k", joint_keys},
    {"model.layers.#.self_attn.qkv_proj", "blk.#.attn_v", joint_values},
    {"model.layers.#.mlp.up_gate_proj", "blk.#.ffn_gate", first_half},
    {"model.layers.#.mlp.up_gate_proj", "blk.#.ffn_up", second_half},
};
std::string ernie_name(const ModelConfig& /*config*/, std::string name) {
  if (name.starts_with("ernie.")) name.replace(0, 6, "model.");
  return name;
}

constexpr std::string_view kLlamaDefaults = R"({"rms_norm_eps": 1e-6})";

}  // namespace

const LanguageFamily kLlama = {.classes = kLlamaClasses,
                               .architecture = "llama",
                               .rules = {paired_names(), decoder_names(), mixtral_names()},
                               .keys = first_keys,
                               .defaults = kLlamaDefaults};
const LanguageFamily kSmollm3 = {.classes = kSmollm3Classes,
                                 .architecture = "smollm3",
                                 .rules = {paired_names(), decoder_names()},
                                 .keys = llama_keys,
                                 .defaults = kLlamaDefaults};
const LanguageFamily kArcee = {.classes = kArceeClasses,
                               .architecture = "arcee",
                               .rules = {paired_names(), decoder_names()},
                               .keys = llama_keys,
                               .activations = "relu2"};
const LanguageFamily kApertus = {.classes = kApertusClasses,
                                 .architecture = "apertus",
                                 .rules = {kApertusNames, head_norm_names(), decoder_names()},
                                 .keys = apertus_keys,
                                 .activations = "xielu"};
const LanguageFamily kSeedOss = {.classes = kSeedOssClasses,
                                 .architecture = "seed_oss",
                                 .rules = {kSeedOssNames, decoder_names()},
                                 .keys = standard_keys};
const LanguageFamily kErnie45 = {.classes = kErnieClasses,
                                 .architecture = "ernie4_5",
                                 .rules = {kErnieNames, decoder_names()},
                                 .keys = standard_keys,
                                 .rename = ernie_name};
const LanguageFamily kInternLm2 = {.classes = kInternLm2Classes,
                                   .architecture = "internlm2",
                                   .rules = {kInternLm2Names},
                                   .keys = standard_keys};
const LanguageFamily kExaone = {.classes = kExaoneClasses,
                                .architecture = "exaone",
                                .rules = {kExaoneNames},
                                .keys = exaone_keys};

}  // namespace billow::convert
