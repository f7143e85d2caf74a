// Reads config.json of the encoders that came after BERT. One function per layout.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/json.h"
#include "convert/encoder_config.h"

namespace billow::convert {
namespace {

double positive(const DocumentFields& fields, const char* name, double otherwise) {
  const double value = fields.number(name).value_or(otherwise);
  if (!(value > 0) || !std::isfinite(value)) fields.refuse(name, "must be more than 0");
  return value;
}

// Returns the base of the rotation. Versions of Hugging Face's library store it in different
// places. `part` is the layer kind in "rope_parameters", if each kind has its own object.
double rope_base(const DocumentFields& fields, const char* name, const char* part,
                 double otherwise) {
  double base = positive(fields, name, otherwise);
  const Document* parameters = fields.find("rope_parameters");
  if (parameters == nullptr) return base;
  const DocumentFields all(*parameters, fields.origin() + ": \"rope_parameters\"");
  const Document* own = all.find(part);
  const DocumentFields rope(own == nullptr ? *parameters : *own, all.origin());
  const std::string type = rope.text("rope_type").value_or("default");
  if (type != "default") refuse_config("a rotation of the type '" + type + "' is not supported");
  return positive(rope, "rope_theta", base);
}

void read_epsilon(const DocumentFields& fields, std::initializer_list<const char*> names,
                  double otherwise, EncoderConfig& config) {
  config.norm_epsilon = otherwise;
  for (const char* name : names) {
    if (fields.find(name) == nullptr) continue;
    config.norm_epsilon = positive(fields, name, otherwise);
    return;
  }
}

Pooling pooling_by_name(const DocumentFields& fields, const char* name, const std::string& value) {
  if (value == "mean") return Pooling::kMean;
  if (value == "cls") return Pooling::kCls;
  refuse_config("\"" + std::string(name) + "\": '" + value + "' is not supported in " +
                fields.origin());
}

void read_classifier_pooling(const DocumentFields& fields, EncoderConfig& config) {
  constexpr const char* kName = "classifier_pooling";
  if (const auto value = fields.text(kName))
    config.classifier_pooling = pooling_by_name(fields, kName, *value);
}

}  // namespace

void read_distil(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "activation", {"gelu"});
  config.norm_epsilon = 1e-12;  // all models use it
  config.n_positions = config.n_context = fields.require_size({"max_position_embeddings"});
}

void read_nomic_experts(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "activation_function", {"gelu"});
  for (const char* name : {"qkv_proj_bias", "mlp_fc1_bias", "mlp_fc2_bias"})
    require_flag(fields, name, true);
  for (const char* name : {"prenorm", "causal", "rotary_emb_interleaved"})
    require_flag(fields, name, false);
  if (fields.number("rotary_emb_fraction").value_or(1.0) != 1.0)
    refuse_config("\"rotary_emb_fraction\" must be 1");
  if (fields.find("rotary_emb_scale_base") != nullptr)
    refuse_config("\"rotary_emb_scale_base\" must be null");
  read_epsilon(fields, {"layer_norm_epsilon", "layer_norm_eps"}, 1e-5, config);
  config.rope_base = rope_base(fields, "rotary_emb_base", "full_attention", 10000);
  // The model was trained for 512 tokens, which its file does not state.
  constexpr uint32_t kTrained = 512;
  config.n_context =
      std::min(fields.require_size({"n_positions", "max_position_embeddings"}), kTrained);
  config.n_token_types = fields.require_size({"type_vocab_size"});
  config.experts_period = fields.require_size({"moe_every_n_layers"});
  config.n_experts = fields.require_size({"num_experts", "num_local_experts"});
  config.n_used_experts = fields.require_size({"moe_top_k"});
  if (config.n_used_experts > config.n_experts)
    fields.refuse("moe_top_k", "is more than the number of experts");
}

void read_jina2(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "position_embedding_type", {"alibi"});
  require_text(fields, "feed_forward_type", {"geglu", "original"});
  require_text(fields, "hidden_act", {"gelu"});
  config.n_context = fields.require_size({"max_position_embeddings"});
  config.n_token_types = fields.require_size({"type_vocab_size"});
}

void read_jina3(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "hidden_act", {"gelu"});
  require_text(fields, "position_embedding_type", {"rotary"});
  const uint64_t pad = fields.count("pad_token_id").value_or(1);
  const uint32_t n_positions = fields.require_size({"max_position_embeddings"});
  if (pad + 1 >= n_positions) fields.refuse("pad_token_id", "leaves no positions for a text");
  config.n_context = n_positions - static_cast<uint32_t>(pad) - 1;
  config.n_token_types = fields.require_size({"type_vocab_size"});
  config.rope_base = rope_base(fields, "rotary_emb_base", "full_attention", 10000);
}

void read_modern(const DocumentFields& fields, EncoderConfig& config) {
  for (const char* name : {"norm_bias", "mlp_bias", "attention_bias"})
    require_flag(fields, name, false);
  require_text(fields, "hidden_activation", {"gelu", "silu"});
  read_epsilon(fields, {"layer_norm_eps", "norm_eps"}, 1e-5, config);
  config.n_context = fields.require_size({"max_position_embeddings"});
  config.rope_base = rope_base(fields, "global_rope_theta", "full_attention", 160000);
  config.local_rope_base = rope_base(fields, "local_rope_theta", "sliding_attention", 10000);
  config.window = fields.require_size({"local_attention"});
  config.window_period = fields.require_size({"global_attn_every_n_layers"});
  config.scales_no_rope = true;
  config.activation = fields.text("hidden_activation").value_or("");
  config.n_words = fields.require_size({"vocab_size"});
  read_classifier_pooling(fields, config);
}

void read_euro(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "hidden_act", {"silu"});
  for (const char* name : {"attention_bias", "mlp_bias"}) require_flag(fields, name, false);
  config.norms_by_root = true;
  read_epsilon(fields, {"rms_norm_eps"}, 1e-5, config);
  config.n_context = fields.require_size({"max_position_embeddings"});
  config.n_kv_heads = fields.find("num_key_value_heads") == nullptr
                          ? config.n_heads
                          : fields.require_size({"num_key_value_heads"});
  if (config.n_heads % config.n_kv_heads != 0)
    fields.refuse("num_key_value_heads", "does not divide the number of heads");
  config.head_len = fields.find("head_dim") == nullptr ? 0 : fields.require_size({"head_dim"});
  config.rope_base = rope_base(fields, "rope_theta", "full_attention", 250000);
  config.scales_no_rope = true;
  read_classifier_pooling(fields, config);
}

void read_neo(const DocumentFields& fields, EncoderConfig& config) {
  require_text(fields, "hidden_act", {"SwiGLU", "swiglu"});
  require_flag(fields, "rms_norm", true);
  require_flag(fields, "rope", true);
  config.norms_by_root = true;
  read_epsilon(fields, {"norm_eps"}, 1e-6, config);
  config.n_context = fields.require_size({"max_position_embeddings", "max_length"});
  config.n_feed_forward = static_cast<uint32_t>(uint64_t{2} * config.n_feed_forward /
                                                3);  // the file counts both halves
  config.rope_base = 10000;
  config.scales_no_rope = true;
}

}  // namespace billow::convert
