#include "reference/hyperparameters.h"

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "reference/matrix.h"

namespace billow::reference {
namespace {

// Reads the keys of one architecture, such as "llama." + name.
struct Keys {
  const gguf::File& file;
  std::string prefix;

  uint64_t require_uint(std::string_view name) const { return file.require_uint(key(name)); }
  double require_float(std::string_view name) const { return file.require_float(key(name)); }
  uint64_t uint_or(std::string_view name, uint64_t otherwise) const {
    return file.get_uint(key(name)).value_or(otherwise);
  }
  double float_or(std::string_view name, double otherwise) const {
    return file.get_float(key(name)).value_or(otherwise);
  }
  std::string key(std::string_view name) const { return prefix + std::string(name); }
};

std::vector<float> optional_vector(const gguf::File& file, std::string_view name, uint64_t n) {
  if (file.find_tensor(name) == nullptr) return {};
  return read_vector(file, std::string(name), n);
}

void read_rope_scaling(const Keys& keys, Rope& rope) {
  const std::string_view type =
      keys.file.get_string(keys.key("rope.scaling.type")).value_or("linear");
  if (type != "none") {
    rope.factor = keys.float_or("rope.scaling.factor", keys.float_or("rope.scale_linear", 1));
    if (rope.factor == 0) rope.factor = 1;
  }
  rope.n_context_original = static_cast<double>(
      keys.uint_or("rope.scaling.original_context_length", keys.require_uint("context_length")));
  rope.amplitude = keys.float_or("rope.scaling.attn_factor", 1);
  if (type == "yarn") {
    rope.ramp_weight = keys.float_or("rope.scaling.yarn_ext_factor", 1);
    rope.beta_fast = keys.float_or("rope.scaling.yarn_beta_fast", 32);
    rope.beta_slow = keys.float_or("rope.scaling.yarn_beta_slow", 1);
    if (rope.factor > 1) rope.amplitude *= 1 + 0.1 * std::log(rope.factor);
  }
}

void read_rope(const Keys& keys, bool adjacent, Hyperparameters& hp) {
  hp.rope.n_rot = keys.uint_or("rope.dimension_count", hp.key_length);
  if (hp.rope.n_rot > hp.key_length || hp.rope.n_rot % 2 != 0) {
    throw Error(ErrorCode::kInvalidInput, keys.key("rope.dimension_count") + " is not usable");
  }
  hp.rope.adjacent = adjacent;
  hp.rope.base = keys.float_or("rope.freq_base", 10000);
  read_rope_scaling(keys, hp.rope);
  const uint64_t n_pairs = hp.rope.n_rot / 2;
  hp.rope.divisors = optional_vector(keys.file, "rope_freqs.weight", n_pairs);
  hp.divisors_short = optional_vector(keys.file, "rope_factors_short.weight", n_pairs);
  hp.divisors_long = optional_vector(keys.file, "rope_factors_long.weight", n_pairs);
}

// Gemma 3: every sixth layer is global, the others are local, unless the file gives another period
// or a list. Local layers have their own rope base. Their positions are neither divided nor
// amplified.
void read_local_layers(const Keys& keys, Hyperparameters& hp) {
  hp.local.assign(hp.n_layers, false);
  hp.window = keys.uint_or("attention.sliding_window", 0);
  hp.rope_local = hp.rope;
  if (hp.window == 0) return;
  hp.rope_local.base = keys.float_or("rope.freq_base_swa", 10000);
  hp.rope_local.factor = 1;
  hp.rope_local.amplitude = keys.float_or("rope.scaling.attn_factor", 1);
  const std::string key = keys.key("attention.sliding_window_pattern");
  const gguf::Value* pattern = keys.file.find(key);
  if (pattern != nullptr && pattern->type == gguf::ValueType::kArray) {
    const gguf::Array* list = keys.file.get_array(key);
    if (list->n != hp.n_layers) {
      throw Error(ErrorCode::kInvalidInput, key + " has not one value for each layer");
    }
    for (uint64_t i = 0; i < hp.n_layers; ++i) hp.local[i] = list->integer(i) != 0;
    return;
  }
  const uint64_t period = keys.file.get_uint(key).value_or(6);
  for (uint64_t i = 0; i < hp.n_layers; ++i) {
    hp.local[i] = period == 0 || i % period < period - 1;
  }
}

void read_gemma3(const Keys& keys, Hyperparameters& hp) {
  constexpr uint64_t kLayersOf27B =
      62;  // the only size whose scale does not follow from the head size
  hp.gelu = true;
  hp.embedding_scale = std::sqrt(static_cast<double>(hp.n_embd));
  if (hp.n_layers == kLayersOf27B) {
    hp.attention_scale = 1 / std::sqrt(static_cast<double>(hp.n_embd / hp.n_head));
  }
  hp.attention_softcap = keys.float_or("attn_logit_softcapping", 0);
  hp.final_softcap = keys.float_or("final_logit_softcapping", 0);
  read_local_layers(keys, hp);
}

}  // namespace

Hyperparameters read_hyperparameters(const gguf::File& file) {
  const std::string architecture(file.require_string("general.architecture"));
  if (architecture != "llama" && architecture != "qwen2" && architecture != "gemma3") {
    throw Error(ErrorCode::kUnsupported, "the reference does not know " + architecture);
  }
  const Keys keys{file, architecture + "."};
  Hyperparameters hp;
  hp.n_layers = keys.require_uint("block_count");
  hp.n_embd = keys.require_uint("embedding_length");
  hp.n_ff = keys.require_uint("feed_forward_length");
  hp.n_head = keys.require_uint("attention.head_count");
  hp.n_head_kv = keys.uint_or("attention.head_count_kv", hp.n_head);
  if (hp.n_head == 0 || hp.n_head_kv == 0 || hp.n_head % hp.n_head_kv != 0) {
    throw Error(ErrorCode::kInvalidInput, "the head counts of " + file.path() + " do not divide");
  }
  hp.key_length = keys.uint_or("attention.key_length", hp.n_embd / hp.n_head);
  hp.value_length = keys.uint_or("attention.value_length", hp.n_embd / hp.n_head);
  hp.norm_epsilon = keys.require_float("attention.layer_norm_rms_epsilon");
  hp.attention_scale = 1 / std::sqrt(static_cast<double>(hp.key_length));
  if (architecture == "llama") {
    hp.attention_scale = keys.float_or("attention.scale", hp.attention_scale);
    if (keys.uint_or("expert_count", 0) != 0) {
      throw Error(ErrorCode::kUnsupported, "the reference does not know experts");
    }
  }
  read_rope(keys, architecture == "llama", hp);
  hp.local.assign(hp.n_layers, false);
  if (architecture == "gemma3") read_gemma3(keys, hp);
  return hp;
}

}  // namespace billow::reference
