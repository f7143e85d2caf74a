// Families with a layer norm: Command R, Nemotron, StableLM, StarCoder, and families from before
// Llama: GPT-2, Pythia, Falcon, BLOOM, MPT.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kCommandRClasses[] = {"CohereForCausalLM"};
constexpr std::string_view kCohere2Classes[] = {"Cohere2ForCausalLM"};
constexpr std::string_view kNemotronClasses[] = {"NemotronForCausalLM"};
constexpr std::string_view kStableLmClasses[] = {"StableLmForCausalLM", "StableLMEpochForCausalLM"};
constexpr std::string_view kStarcoderClasses[] = {"GPTBigCodeForCausalLM"};
constexpr std::string_view kStarcoder2Classes[] = {"Starcoder2ForCausalLM"};
constexpr std::string_view kGpt2Classes[] = {"GPT2LMHeadModel"};
constexpr std::string_view kGptNeoXClasses[] = {"GPTNeoXForCausalLM"};
constexpr std::string_view kFalconClasses[] = {"FalconForCausalLM", "RWForCausalLM"};
constexpr std::string_view kBloomClasses[] = {"BloomForCausalLM"};
constexpr std::string_view kMptClasses[] = {"MPTForCausalLM", "MptForCausalLM"};

void command_r_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys(model, keys);
  const ModelConfig& config = model.config;
  count_if(config, {"model_max_length", "max_position_embeddings"}, "context_length", keys);
  keys.number("logit_scale", config.require_number({"logit_scale"}));
  keys.text("rope.scaling.type", "none");
}
void cohere2_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys_with_words(model, keys);
  const ModelConfig& config = model.config;
  keys.number("logit_scale", config.require_number({"logit_scale"}));
  keys.count("attention.sliding_window", config.require_size({"sliding_window"}));
  const uint32_t head_len = config.n_embd() / config.n_heads();
  const double part = config.number({"rotary_pct"}).value_or(1);
  keys.count("rope.dimension_count", static_cast<uint64_t>(part * head_len));
  keys.text("rope.scaling.type", "none");
}

void add_one(Shaping& shaping) {
  if (shaping.name().ends_with("norm.weight")) shaping.add(1);
}
void nemotron_keys(const LanguageModel& model, KeyWriter& keys) {
  standard_keys_with_words(model, keys);
  const ModelConfig& config = model.config;
  keys.number(
      "attention.layer_norm_epsilon",
      config.require_number({"layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"}));
  const double part = config.rope_number("partial_rotary_factor").value_or(0.5);
  keys.count("rope.dimension_count",
             static_cast<uint64_t>(part * config.n_embd()) / config.n_heads());
  const auto factor = config.rope_number("factor");
  keys.text("rope.scaling.type", factor ? "linear" : "none");
  if (factor) keys.number("rope.scaling.factor", *factor);
}

constexpr TensorRule kStableLmNames[] = {
    {"model.layers.#.self_attn.q_layernorm.norms.*", "blk.#.attn_q_norm"},
    {"model.layers.#.self_attn.k_layernorm.norms.*", "blk.#.attn_k_norm"},
};
void stablelm_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  const uint32_t head_len = config.n_embd() / config.n_heads();
  const double part = config.rope_number("partial_rotary_factor").value_or(0.25);
  keys.count("rope.dimension_count", static_cast<uint64_t>(part * head_len));
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.flag("use_parallel_residual", config.flag("use_parallel_residual", true));
  keys.number("attention.layer_norm_epsilon",
              config.require_number({"layer_norm_eps", "norm_eps"}));
}

constexpr TensorRule kStarcoder2Names[] = {
    {"model.layers.#.mlp.c_fc", "blk.#.ffn_up"},
    {"model.layers.#.mlp.c_proj", "blk.#.ffn_down"},
};

// GPT-2 stores its matrices transposed. StarCoder has the same names, but does not transpose.
void turned_matrix(Shaping& shaping) {
  if (shaping.shape().size() == 2) shaping.turn();
}
constexpr TensorRule kGpt2Frame[] = {
    {"transformer.wte", "token_embd"},           {"transformer.wpe", "position_embd"},
    {"transformer.ln_f", "output_norm"},         {"lm_head", "output"},
    {"transformer.h.#.ln_1", "blk.#.attn_norm"}, {"transformer.h.#.ln_2", "blk.#.ffn_norm"},
};
constexpr TensorRule kGpt2Matrices[] = {
    {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv", turned_matrix},
    {"transformer.h.#.attn.c_proj", "blk.#.attn_output", turned_matrix},
    {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up", turned_matrix},
    {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down", turned_matrix},
};
constexpr TensorRule kStarcoderMatrices[] = {
    {"transformer.h.#.attn.c_attn", "blk.#.attn_qkv"},
    {"transformer.h.#.attn.c_proj", "blk.#.attn_output"},
    {"transformer.h.#.mlp.c_fc", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.c_proj", "blk.#.ffn_down"},
};
// Adds the prefix that files of the bare model omit.
std::string gpt2_name(const ModelConfig& /*config*/, std::string name) {
  for (const std::string_view part : {"wte.", "wpe.", "ln_f.", "h."})
    if (name.starts_with(part)) return "transformer." + name;
  return name;
}
void gpt2_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  keys.count("block_count", model.n_blocks());
  keys.count("context_length", config.require_size({"n_ctx", "n_positions"}));
  keys.count("embedding_length", config.n_embd());
  keys.count("feed_forward_length", uint64_t{4} * config.n_embd());
  keys.count("attention.head_count", config.n_heads());
  keys.number("attention.layer_norm_epsilon", config.require_number({"layer_norm_epsilon"}));
}
void starcoder_keys(const LanguageModel& model, KeyWriter& keys) {
  gpt2_keys(model, keys);
  keys.count("context_length", model.config.require_size({"n_positions"}));
  keys.count("attention.head_count_kv", 1);
}

constexpr TensorRule kGptNeoXNames[] = {
    {"gpt_neox.embed_in", "token_embd"},
    {"gpt_neox.final_layer_norm", "output_norm"},
    {"embed_out", "output"},
    {"gpt_neox.layers.#.input_layernorm", "blk.#.attn_norm"},
    {"gpt_neox.layers.#.attention.query_key_value", "blk.#.attn_qkv", joint_heads},
    {"gpt_neox.layers.#.attention.dense", "blk.#.attn_output"},
    {"gpt_neox.layers.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"gpt_neox.layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"gpt_neox.layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};
void gptneox_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  const double part = config.number({"rotary_pct"})
                          .value_or(config.rope_number("partial_rotary_factor").value_or(0.25));
  keys.count("rope.dimension_count",
             static_cast<uint64_t>(part * (config.n_embd() / config.n_heads())));
  keys.count("attention.head_count", config.n_heads());
  keys.flag("use_parallel_residual", config.flag("use_parallel_residual", true));
  keys.number("attention.layer_norm_epsilon", config.require_number({"layer_norm_eps"}));
}

// The source stores the queries, keys and values of each group together. GGUF stores all queries
// first, then all keys, then all values.
uint32_t falcon_kv_heads(const ModelConfig& config) {
  const bool is_new = config.flag("new_decoder_architecture");
  if (!is_new && config.flag("multi_query", true)) return 1;
  return config.count({"num_kv_heads", "n_head_kv"}).value_or(is_new ? 8 : config.n_heads());
}
void falcon_joint(Shaping& shaping) {
  const uint64_t n_heads = shaping.config().n_heads();
  const uint64_t n_groups = falcon_kv_heads(shaping.config());
  if (n_groups == 0 || n_heads % n_groups != 0)
    shaping.refuse("does not consist of whole groups of heads");
  const uint64_t of_group = n_heads / n_groups;
  const uint64_t n_rows = shaping.n_rows();
  if (n_rows % (n_heads + 2 * n_groups) != 0) shaping.refuse("does not consist of whole heads");
  const uint64_t len = n_rows / (n_heads + 2 * n_groups);
  shaping.gather(n_rows, [=](uint64_t at) {
    const uint64_t head = at / len;
    uint64_t group = head / of_group;
    uint64_t place = head % of_group;
    if (head >= n_heads) {
      group = (head - n_heads) % n_groups;
      place = of_group + (head - n_heads) / n_groups;
    }
    return (group * (of_group + 2) + place) * len + at % len;
  });
}
constexpr TensorRule kFalconNames[] = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
    {"transformer.h.#.ln_attn", "blk.#.attn_norm_2"},
    {"transformer.h.#.ln_mlp", "blk.#.attn_norm"},
    {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv", falcon_joint},
    {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
    {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};
void falcon_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  if (config.flag("alibi")) config.refuse_unknown("\"alibi\" must be false");
  keys.count("context_length", 2048);
  keys.text("tensor_data_layout", "jploski");  // the order of falcon_joint()
  keys.count("embedding_length", config.n_embd());
  keys.count("feed_forward_length", uint64_t{4} * config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", falcon_kv_heads(config));
  keys.number("attention.layer_norm_epsilon", config.require_number({"layer_norm_epsilon"}));
}

constexpr TensorRule kBloomNames[] = {
    {"transformer.word_embeddings", "token_embd"},
    {"transformer.word_embeddings_layernorm", "token_embd_norm"},
    {"transformer.ln_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.h.#.input_layernorm", "blk.#.attn_norm"},
    {"transformer.h.#.self_attention.query_key_value", "blk.#.attn_qkv", joint_heads},
    {"transformer.h.#.self_attention.dense", "blk.#.attn_output"},
    {"transformer.h.#.post_attention_layernorm", "blk.#.ffn_norm"},
    {"transformer.h.#.mlp.dense_h_to_4h", "blk.#.ffn_up"},
    {"transformer.h.#.mlp.dense_4h_to_h", "blk.#.ffn_down"},
};
std::string bloom_name(const ModelConfig& /*config*/, std::string name) {
  for (const std::string_view part : {"word_embeddings", "ln_f.", "h."})
    if (name.starts_with(part)) return "transformer." + name;
  return name;
}
void bloom_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const uint32_t n_embd = config.require_size({"hidden_size", "n_embed"});
  keys.count("context_length", config.count({"seq_length"}).value_or(n_embd));
  keys.count("embedding_length", n_embd);
  keys.count("feed_forward_length", uint64_t{4} * n_embd);
  keys.count("block_count", model.n_blocks());
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_heads());
  keys.number("attention.layer_norm_epsilon", config.require_number({"layer_norm_epsilon"}));
}

constexpr TensorRule kMptNames[] = {
    {"transformer.wte", "token_embd"},
    {"transformer.wpe", "position_embd"},
    {"transformer.norm_f", "output_norm"},
    {"lm_head", "output"},
    {"transformer.blocks.#.norm_1", "blk.#.attn_norm"},
    {"transformer.blocks.#.attn.Wqkv", "blk.#.attn_qkv"},
    {"transformer.blocks.#.attn.q_ln", "blk.#.attn_q_norm"},
    {"transformer.blocks.#.attn.k_ln", "blk.#.attn_k_norm"},
    {"transformer.blocks.#.attn.out_proj", "blk.#.attn_output"},
    {"transformer.blocks.#.norm_2", "blk.#.ffn_norm"},
    {"transformer.blocks.#.ffn.up_proj", "blk.#.ffn_up"},
    {"transformer.blocks.#.ffn.down_proj", "blk.#.ffn_down"},
};
void mpt_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  const ModelConfig attention = config.part("attn_config");
  keys.count("context_length", config.require_size({"max_seq_len"}));
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("feed_forward_length", uint64_t{4} * config.n_embd());
  keys.count("attention.head_count", config.n_heads());
  const auto n_kv = attention.count({"kv_n_heads"});
  if (n_kv && *n_kv != 0) keys.count("attention.head_count_kv", *n_kv);
  keys.number("attention.layer_norm_epsilon", 1e-5);
  number_if(attention, {"clip_qkv"}, "attention.clamp_kqv", keys);
  const bool has_alibi = attention.flag("alibi", true);
  keys.number("attention.max_alibi_bias",
              has_alibi ? attention.number({"alibi_bias_max"}).value_or(8) : 0);
}

}  // namespace

const LanguageFamily kCommandR = {.classes = kCommandRClasses,
                                  .architecture = "command-r",
                                  .rules = {head_norm_names(), decoder_names()},
                                  .keys = command_r_keys,
                                  .defaults = R"({"layer_norm_eps": 1e-5})"};
const LanguageFamily kCohere2 = {.classes = kCohere2Classes,
                                 .architecture = "cohere2",
                                 .rules = {decoder_names()},
                                 .keys = cohere2_keys,
                                 .defaults = R"({"layer_norm_eps": 1e-5})"};
const LanguageFamily kNemotron = {.classes = kNemotronClasses,
                                  .architecture = "nemotron",
                                  .rules = {decoder_names()},
                                  .keys = nemotron_keys,
                                  .defaults = R"({"norm_eps": 1e-5})",
                                  .activations = "relu2",
                                  .finish = add_one};
const LanguageFamily kStableLm = {.classes = kStableLmClasses,
                                  .architecture = "stablelm",
                                  .rules = {kStableLmNames, decoder_names()},
                                  .keys = stablelm_keys,
                                  .defaults = R"({"layer_norm_eps": 1e-5})"};
const LanguageFamily kStarcoder2 = {.classes = kStarcoder2Classes,
                                    .architecture = "starcoder2",
                                    .rules = {kStarcoder2Names, decoder_names()},
                                    .keys = standard_keys,
                                    .defaults = R"({"norm_epsilon": 1e-5})",
                                    .activations = "gelu_pytorch_tanh"};
const LanguageFamily kStarcoder = {.classes = kStarcoderClasses,
                                   .architecture = "starcoder",
                                   .rules = {kStarcoderMatrices, kGpt2Frame},
                                   .keys = starcoder_keys,
                                   .defaults = R"({"layer_norm_epsilon": 1e-5})",
                                   .activations = "",
                                   .rename = gpt2_name};
const LanguageFamily kGpt2 = {.classes = kGpt2Classes,
                              .architecture = "gpt2",
                              .rules = {kGpt2Matrices, kGpt2Frame},
                              .keys = gpt2_keys,
                              .defaults = R"({"layer_norm_epsilon": 1e-5,
                                              "tie_word_embeddings": true})",
                              .activations = "",
                              .rename = gpt2_name};
const LanguageFamily kGptNeoX = {.classes = kGptNeoXClasses,
                                 .architecture = "gptneox",
                                 .rules = {kGptNeoXNames},
                                 .keys = gptneox_keys,
                                 .defaults = R"({"layer_norm_eps": 1e-5})",
                                 .activations = "gelu gelu_new gelu_fast"};
const LanguageFamily kFalcon = {.classes = kFalconClasses,
                                .architecture = "falcon",
                                .rules = {kFalconNames},
                                .keys = falcon_keys,
                                .defaults = R"({"layer_norm_epsilon": 1e-5})",
                                .activations = "gelu"};
const LanguageFamily kBloom = {.classes = kBloomClasses,
                               .architecture = "bloom",
                               .rules = {kBloomNames},
                               .keys = bloom_keys,
                               .defaults = R"({"layer_norm_epsilon": 1e-5})",
                               .activations = "",
                               .rename = bloom_name};
const LanguageFamily kMpt = {.classes = kMptClasses,
                             .architecture = "mpt",
                             .rules = {kMptNames},
                             .keys = mpt_keys,
                             .activations = ""};

}  // namespace billow::convert
