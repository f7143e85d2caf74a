#include "arch/hparams.h"

#include <cmath>

#include "base/error.h"

namespace billow::arch {
namespace {

// Far beyond any model; keeps sums and products of sizes small enough to compute with.
constexpr size_t kMostLayers = 4096;
constexpr size_t kMostWidth = size_t{1} << 24;
constexpr size_t kMostContext = size_t{1} << 30;

size_t bounded(const gguf::File& file, const std::string& key, size_t value, size_t most) {
  if (value == 0 || value > most) {
    refuse_key(file, key,
               "is " + std::to_string(value) + ", not within 1.." + std::to_string(most));
  }
  return value;
}

const float* find_divisors(const gguf::File& file, std::string_view name, size_t n) {
  const gguf::TensorInfo* info = file.find_tensor(name);
  if (info == nullptr) return nullptr;
  if (info->type != static_cast<uint32_t>(quant::Type::kF32) || info->n_elements() != n) {
    throw Error(ErrorCode::kInvalidInput, file.path() + ": tensor " + std::string(name) +
                                              " should be " + std::to_string(n) +
                                              " values of type F32");
  }
  for (size_t i = 0; i < n; ++i) {
    const float divisor = reinterpret_cast<const float*>(info->data.data())[i];
    if (!(divisor > 0.0f) || !std::isfinite(divisor)) {
      throw Error(ErrorCode::kInvalidInput,
                  file.path() + ": tensor " + std::string(name) +
                      " holds a frequency divisor that is not a positive number");
    }
  }
  return reinterpret_cast<const float*>(info->data.data());
}

double positive(const gguf::File& file, const std::string& key, double fallback) {
  const double value = file.get_float(key).value_or(fallback);
  if (!(value > 0.0) || !std::isfinite(value)) refuse_key(file, key, "is not a positive number");
  return value;
}

void read_scaling(const gguf::File& file, const Hparams& hparams, size_t max_context,
                  nn::RopeParams& rope) {
  const std::string scaling = hparams.prefix + "rope.scaling.";
  // Files from before scaling had a type give the factor of the linear one.
  const double old_factor = positive(file, hparams.prefix + "rope.scale_linear", 1.0);
  const std::string_view type = file.get_string(scaling + "type").value_or("linear");
  rope.factor = positive(file, scaling + "factor", old_factor);
  rope.attention_factor = positive(file, scaling + "attn_factor", 1.0);
  rope.original_context =
      positive(file, scaling + "original_context_length", static_cast<double>(hparams.max_context));
  const size_t n_pairs = rope.n_rot / 2;
  rope.divisors = find_divisors(file, "rope_freqs.weight", n_pairs);
  if (type == "none") return;
  if (type == "linear") {
    rope.scaling = nn::RopeScaling::kLinear;
  } else if (type == "yarn") {
    rope.scaling = nn::RopeScaling::kYarn;
    rope.extrapolation = file.get_float(scaling + "yarn_ext_factor").value_or(1.0);
    rope.attention_factor *= positive(file, scaling + "yarn_attn_factor", 1.0);
    rope.beta_fast = positive(file, scaling + "yarn_beta_fast", 32.0);
    rope.beta_slow = positive(file, scaling + "yarn_beta_slow", 1.0);
  } else if (type == "longrope") {
    const bool is_long = static_cast<double>(max_context) > rope.original_context;
    const char* name = is_long ? "rope_factors_long.weight" : "rope_factors_short.weight";
    rope.divisors = find_divisors(file, name, n_pairs);
    if (rope.divisors == nullptr) {
      throw Error(ErrorCode::kInvalidInput, file.path() + ": tensor " + name +
                                                " is missing, which rope scaling longrope needs");
    }
  } else {
    refuse_key(file, scaling + "type",
               "is '" + std::string(type) + "'; known are none, linear, yarn and longrope");
  }
}

// What differs between kinds of models.
struct Rules {
  const char* epsilon_key;
  size_t head_multiple;  // of a head's length
};

}  // namespace

void refuse_key(const gguf::File& file, const std::string& key, const std::string& why) {
  throw Error(ErrorCode::kInvalidInput, file.path() + ": key " + key + " " + why);
}

size_t uniform_uint(const gguf::File& file, const std::string& key) {
  const gguf::Value* value = file.find(key);
  if (value == nullptr || value->type != gguf::ValueType::kArray) return file.require_uint(key);
  const gguf::Array* array = file.get_array(key);
  if (array->n == 0 || array->element_type == gguf::ValueType::kString ||
      array->element_type == gguf::ValueType::kArray) {
    refuse_key(file, key, "should be a number, or one for each layer");
  }
  for (uint64_t i = 1; i < array->n; ++i) {
    if (array->integer(i) != array->integer(0))
      refuse_key(file, key, "differs between layers, which is not supported");
  }
  if (array->integer(0) < 0) refuse_key(file, key, "is negative");
  return static_cast<size_t>(array->integer(0));
}

namespace {

Hparams read_by(const Rules& rules, const gguf::File& file) {
  Hparams h;
  h.prefix = std::string(file.require_string("general.architecture")) + ".";
  const auto width = [&](const std::string& name) {
    return bounded(file, h.prefix + name, uniform_uint(file, h.prefix + name), kMostWidth);
  };
  h.n_embd = width("embedding_length");
  h.n_layers = bounded(file, h.prefix + "block_count", file.require_uint(h.prefix + "block_count"),
                       kMostLayers);
  h.n_ff = width("feed_forward_length");
  h.n_heads = width("attention.head_count");
  h.n_kv_heads = file.find(h.prefix + "attention.head_count_kv") ? width("attention.head_count_kv")
                                                                 : h.n_heads;
  h.k_len = file.find(h.prefix + "attention.key_length") ? width("attention.key_length")
                                                         : h.n_embd / h.n_heads;
  h.v_len =
      file.find(h.prefix + "attention.value_length") ? width("attention.value_length") : h.k_len;
  h.max_context = bounded(file, h.prefix + "context_length",
                          file.require_uint(h.prefix + "context_length"), kMostContext);
  h.norm_epsilon = static_cast<float>(positive(file, h.prefix + rules.epsilon_key, 0.0));
  if (h.n_heads % h.n_kv_heads != 0) {
    refuse_key(file, h.prefix + "attention.head_count_kv", "does not divide the number of heads");
  }
  const size_t multiple = rules.head_multiple;
  if (h.k_len == 0 || h.k_len % multiple != 0 || h.v_len % multiple != 0) {
    refuse_key(file, h.prefix + "attention.key_length",
               "makes heads of " + std::to_string(h.k_len) + " and " + std::to_string(h.v_len) +
                   "; multiples of " + std::to_string(multiple) + " are supported");
  }
  const gguf::TensorInfo* embedding = file.find_tensor("token_embd.weight");
  if (embedding == nullptr) {
    throw Error(ErrorCode::kInvalidInput,
                file.path() + ": tensor token_embd.weight is missing; the file holds no model");
  }
  h.n_vocab = embedding->shape[1];
  return h;
}

}  // namespace

Hparams read_hparams(const gguf::File& file) {
  return read_by({"attention.layer_norm_rms_epsilon", 16}, file);
}

Hparams read_encoder_hparams(const gguf::File& file) {
  const Hparams h = read_by({"attention.layer_norm_epsilon", 8}, file);
  if (h.n_kv_heads != h.n_heads)
    refuse_key(file, h.prefix + "attention.head_count_kv", "is not the number of heads");
  if (h.v_len != h.k_len)
    refuse_key(file, h.prefix + "attention.value_length", "is not the length of a key");
  if (file.get_bool(h.prefix + "attention.causal").value_or(false))
    refuse_key(file, h.prefix + "attention.causal", "is true, which no encoder is");
  return h;
}

ModelInfo describe(std::string_view architecture, const Hparams& h) {
  const kv::LayerNeed need{.n_heads = static_cast<uint32_t>(h.n_kv_heads),
                           .k_len = static_cast<uint32_t>(h.k_len),
                           .v_len = static_cast<uint32_t>(h.v_len)};
  return {.architecture = std::string(architecture),
          .n_vocab = h.n_vocab,
          .n_embd = h.n_embd,
          .n_layers = h.n_layers,
          .max_context = h.max_context,
          .kv = std::vector<kv::LayerNeed>(h.n_layers, need)};
}

nn::RopeParams read_rope(const gguf::File& file, const Hparams& hparams, kernels::RopeKind kind,
                         size_t max_context) {
  nn::RopeParams rope;
  rope.kind = kind;
  const std::string count = hparams.prefix + "rope.dimension_count";
  const uint64_t n_rot = file.get_uint(count).value_or(hparams.k_len);
  if (n_rot % 2 != 0 || n_rot > hparams.k_len) {
    refuse_key(file, count,
               "is " + std::to_string(n_rot) + "; it should be even and at most a head's " +
                   std::to_string(hparams.k_len));
  }
  rope.n_rot = static_cast<uint32_t>(n_rot);
  rope.base = positive(file, hparams.prefix + "rope.freq_base", 10000.0);
  read_scaling(file, hparams, max_context == 0 ? hparams.max_context : max_context, rope);
  return rope;
}

}  // namespace billow::arch
