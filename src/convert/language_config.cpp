#include "convert/language_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "base/json.h"
#include "convert/json_document.h"

namespace billow::convert {
namespace {

constexpr const char* kFile = "config.json";
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeadLen = 1024;

constexpr std::array kFamilies{
    LanguageFamily{"LlamaForCausalLM", "llama", true, false, false},
    LanguageFamily{"MistralForCausalLM", "llama", true, false, false},
    LanguageFamily{"Qwen2ForCausalLM", "qwen2", false, true, false},
    LanguageFamily{"Qwen3ForCausalLM", "qwen3", false, false, true},
};

[[noreturn]] void not_known(const std::string& what) {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", kFile, what));
}

void require_false(const DocumentFields& fields, const char* name) {
  if (fields.flag(name).value_or(false)) not_known(fmt::format("\"{}\" must be false", name));
}

double positive(const DocumentFields& fields, const char* name, double otherwise) {
  const double value = fields.number(name).value_or(otherwise);
  if (!(value > 0) || !std::isfinite(value)) fields.refuse(name, "must be more than 0");
  return value;
}

uint32_t size_or(const DocumentFields& fields, const char* name, uint32_t otherwise) {
  return fields.find(name) == nullptr ? otherwise : fields.require_size({name});
}

// The rule of Llama 3.1: pairs that turn slowly are divided by the factor, fast ones are not, and
// those between them by something between. config.json's words for it are of Hugging Face's
// library, modeling_rope_utils.py, _compute_llama3_parameters.
std::vector<float> llama3_divisors(const DocumentFields& rope, double base, uint32_t head_len,
                                   uint32_t original) {
  const double factor = positive(rope, "factor", 8);
  const double low = positive(rope, "low_freq_factor", 1);
  const double high = positive(rope, "high_freq_factor", 4);
  if (high <= low) rope.refuse("high_freq_factor", "must be more than \"low_freq_factor\"");
  std::vector<float> divisors;
  for (uint32_t i = 0; i < head_len; i += 2) {
    const double frequency = std::pow(base, -static_cast<double>(i) / head_len);
    const double turns = original * frequency / (2 * std::numbers::pi);
    const double smooth = std::clamp((turns - low) / (high - low), 0.0, 1.0);
    divisors.push_back(static_cast<float>(1 / ((1 - smooth) / factor + smooth)));
  }
  return divisors;
}

void read_rope(const DocumentFields& fields, LanguageConfig& config) {
  config.rope_base = positive(fields, "rope_theta", 10000);
  const char* name = fields.find("rope_parameters") != nullptr ? "rope_parameters" : "rope_scaling";
  const Document* object = fields.find(name);
  if (object == nullptr) return;
  const DocumentFields rope(*object, fmt::format("{}: \"{}\"", kFile, name));
  config.rope_base = positive(rope, "rope_theta", config.rope_base);
  const std::string type = rope.text("rope_type").value_or(rope.text("type").value_or("default"));
  if (type == "default") return;
  const uint32_t original = size_or(rope, "original_max_position_embeddings", config.n_context);
  if (type == "llama3") {
    config.rope_divisors = llama3_divisors(rope, config.rope_base, config.head_len, original);
    return;
  }
  config.rope = {.type = {}, .factor = positive(rope, "factor", 1), .original_context = 0};
  if (type == "linear") {
    config.rope.type = "linear";
  } else if (type == "yarn") {
    config.rope.type = "yarn";
    config.rope.original_context = original;
    for (const char* other : {"attention_factor", "beta_fast", "beta_slow", "mscale"}) {
      if (rope.find(other) != nullptr)
        not_known(fmt::format("\"{}\" of a rotation of the type yarn is not supported", other));
    }
  } else {
    not_known(
        fmt::format("a rotation of the type '{}' is not supported (known: default, linear, "
                    "llama3, yarn)",
                    type));
  }
}

}  // namespace

std::span<const LanguageFamily> language_families() noexcept { return kFamilies; }

const LanguageFamily* find_language_family(const Sources& sources) {
  const auto document = sources.document(kFile);
  if (!document) {
    throw Error(ErrorCode::kInvalidInput, "config.json is missing; send it with the weights");
  }
  const DocumentFields fields(*document, kFile);
  const Document* names = fields.find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    fields.refuse("architectures", "must name the model's class");
  }
  const auto name = names->front().get<std::string>();
  const auto* known = std::ranges::find(kFamilies, name, &LanguageFamily::name);
  return known == kFamilies.end() ? nullptr : known;
}

LanguageConfig read_language_config(const Sources& sources, const LanguageFamily& family) {
  const auto document = sources.document(kFile);
  const DocumentFields fields(document.value(), kFile);
  LanguageConfig config;
  config.family = &family;
  config.n_embd = fields.require_size({"hidden_size"});
  config.n_layers = fields.require_size({"num_hidden_layers"});
  config.n_heads = fields.require_size({"num_attention_heads"});
  config.n_kv_heads = size_or(fields, "num_key_value_heads", config.n_heads);
  config.n_feed_forward = fields.require_size({"intermediate_size"});
  config.n_context = fields.require_size({"max_position_embeddings"});
  config.norm_epsilon = positive(fields, "rms_norm_eps", 1e-6);
  config.ties_output = fields.flag("tie_word_embeddings").value_or(false);
  if (config.n_layers > kMaxLayers) fields.refuse("num_hidden_layers", "is more than 1024");
  if (config.n_heads % config.n_kv_heads != 0) {
    fields.refuse("num_key_value_heads", "does not divide the number of heads");
  }
  config.head_len = size_or(fields, "head_dim", 0);
  if (config.head_len == 0 && config.n_embd % config.n_heads != 0) {
    fields.refuse("num_attention_heads",
                  fmt::format("does not divide the width of {}", config.n_embd));
  }
  if (config.head_len == 0) config.head_len = config.n_embd / config.n_heads;
  if (config.head_len % 2 != 0 || config.head_len > kMaxHeadLen) {
    fields.refuse("head_dim", "must be even and at most 1024");
  }
  if (const auto act = fields.text("hidden_act"); act && *act != "silu") {
    not_known(fmt::format("\"hidden_act\": '{}' is not supported (known: silu)", *act));
  }
  if (!family.has_qkv_bias) require_false(fields, "attention_bias");
  require_false(fields, "mlp_bias");
  require_false(fields, "use_sliding_window");
  const auto window = fields.count("sliding_window");
  const bool is_used = fields.flag("use_sliding_window").value_or(true);
  if (is_used && window && *window < config.n_context)
    config.window = static_cast<uint32_t>(*window);
  read_rope(fields, config);
  return config;
}

}  // namespace billow::convert
