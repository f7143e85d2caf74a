// Gemma 1 to 3. Norm tensors contain the weight minus 1. Gemma 1 and 2 use the token table as
// output.
#include "convert/families/families.h"
#include "convert/families/keys.h"
#include "convert/families/names.h"

namespace billow::convert {
namespace {

constexpr std::string_view kGemmaClasses[] = {"GemmaForCausalLM"};
constexpr std::string_view kGemma2Classes[] = {"Gemma2ForCausalLM"};
constexpr std::string_view kGemma3Classes[] = {"Gemma3ForCausalLM",
                                               "Gemma3ForConditionalGeneration"};

constexpr TensorRule kNoOutput[] = {{"lm_head", ""}};

void add_one(Shaping& shaping) {
  if (shaping.name().ends_with("norm.weight")) shaping.add(1);
}

void gemma_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  context_length(config, keys);
  keys.count("embedding_length", config.n_embd());
  keys.count("block_count", model.n_blocks());
  keys.count("feed_forward_length", config.require_size({"intermediate_size"}));
  keys.count("attention.head_count", config.n_heads());
  keys.count("attention.head_count_kv", config.n_kv_heads());
  keys.number("attention.layer_norm_rms_epsilon", config.require_number({"rms_norm_eps"}));
  head_lengths(config.head_len(), keys);
}

void gemma2_keys(const LanguageModel& model, KeyWriter& keys) {
  gemma_keys(model, keys);
  const ModelConfig& config = model.config;
  keys.number("attn_logit_softcapping", config.require_number({"attn_logit_softcapping"}));
  keys.number("final_logit_softcapping", config.require_number({"final_logit_softcapping"}));
  keys.count("attention.sliding_window", config.require_size({"sliding_window"}));
}

// A Gemma 3 without an output, whose tokens also see later tokens.
constexpr std::string_view kGemmaEmbeddingClasses[] = {"Gemma3TextModel"};
std::string embedding_name(const ModelConfig& /*config*/, std::string name) {
  return name.starts_with("model.") ? name : "model." + name;
}
void embedding_keys(const LanguageModel& model, KeyWriter& keys) {
  if (!model.config.flag("use_bidirectional_attention"))
    model.config.refuse_unknown(
        "a Gemma3TextModel without \"use_bidirectional_attention\" is not supported");
  gemma3_keys(model, keys);
}

}  // namespace

void gemma3_keys(const LanguageModel& model, KeyWriter& keys) {
  const ModelConfig& config = model.config;
  standard_keys(model, keys);
  keys.number("rope.freq_base", config.rope_number("rope_theta").value_or(1e6));
  if (config.has("attn_logit_softcapping"))
    config.refuse_unknown("\"attn_logit_softcapping\" is not supported in a Gemma 3");
  if (const auto cap = config.number({"final_logit_softcapping"}); cap && *cap != 0)
    keys.number("final_logit_softcapping", *cap);
  if (config.count({"sliding_window_pattern"}).value_or(6) != 1)
    keys.count("attention.sliding_window", config.require_size({"sliding_window"}));
}

const LanguageFamily kGemma = {
    .classes = kGemmaClasses,
    .architecture = "gemma",
    .rules = {kNoOutput, decoder_names()},
    .keys = gemma_keys,
    .defaults = R"({"head_dim": 256, "num_key_value_heads": 16, "num_attention_heads": 16,
                    "hidden_size": 3072, "intermediate_size": 24576, "num_hidden_layers": 28,
                    "max_position_embeddings": 8192, "rms_norm_eps": 1e-6})",
    .activations = "gelu gelu_pytorch_tanh",
    .finish = add_one};
const LanguageFamily kGemma2 = {
    .classes = kGemma2Classes,
    .architecture = "gemma2",
    .rules = {kNoOutput, sandwich_norm_names(), decoder_names()},
    .keys = gemma2_keys,
    .defaults = R"({"head_dim": 256, "num_key_value_heads": 4, "num_attention_heads": 8,
                    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                    "max_position_embeddings": 8192, "rms_norm_eps": 1e-6, "sliding_window": 4096,
                    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0})",
    .activations = "gelu_pytorch_tanh",
    .finish = add_one};
const LanguageFamily kGemma3 = {
    .classes = kGemma3Classes,
    .architecture = "gemma3",
    .rules = {sandwich_norm_names(), head_norm_names(), decoder_names()},
    .keys = gemma3_keys,
    .defaults = R"({"head_dim": 256, "num_key_value_heads": 4, "num_attention_heads": 8,
                    "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                    "max_position_embeddings": 131072, "rms_norm_eps": 1e-6, "sliding_window": 4096,
                    "rope_theta": 1000000.0, "rope_local_base_freq": 10000.0})",
    .activations = "gelu_pytorch_tanh",
    .finish = add_one};

const LanguageFamily kGemmaEmbedding = {
    .classes = kGemmaEmbeddingClasses,
    .architecture = "gemma-embedding",
    .rules = {sandwich_norm_names(), head_norm_names(), decoder_names()},
    .keys = embedding_keys,
    .defaults = kGemma3.defaults,
    .activations = "gelu_pytorch_tanh",
    .rename = embedding_name,
    .finish = add_one};

}  // namespace billow::convert
