#include "convert/adapter_base.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "convert/json_document.h"
#include "convert/language_file.h"

namespace billow::convert {
namespace {

// Keys after "ARCHITECTURE.", and the fields of config.json with the same number.
struct Field {
  std::string_view key;
  std::string_view field;
};
constexpr Field kFields[] = {{"embedding_length", "hidden_size"},
                             {"attention.head_count", "num_attention_heads"},
                             {"attention.head_count_kv", "num_key_value_heads"},
                             {"attention.head_count_kv", "num_kv_heads"},
                             {"attention.key_length", "head_dim"},
                             {"attention.kv_lora_rank", "kv_lora_rank"},
                             {"attention.value_length_mla", "v_head_dim"},
                             {"rope.dimension_count", "qk_rope_head_dim"},
                             {"feed_forward_length", "intermediate_size"},
                             {"expert_feed_forward_length", "moe_intermediate_size"},
                             {"expert_count", "num_experts"},
                             {"expert_count", "num_local_experts"},
                             {"expert_count", "n_routed_experts"},
                             {"leading_dense_block_count", "first_k_dense_replace"},
                             {"nextn_predict_layers", "num_nextn_predict_layers"},
                             {"nextn_predict_layers", "mtp_num_hidden_layers"},
                             {"ssm.group_count", "n_groups"},
                             {"ssm.group_count", "linear_num_key_heads"},
                             {"ssm.time_step_rank", "linear_num_value_heads"},
                             {"ssm.state_size", "linear_key_head_dim"}};

// Returns a number, or the maximum of a list with one number per layer.
std::optional<uint64_t> number_of(const gguf::File& model, const std::string& key) {
  const gguf::Value* value = model.find(key);
  if (value == nullptr) return std::nullopt;
  const gguf::Array* list = gguf::as_array(*value);
  if (list == nullptr) return model.get_uint(key);
  if (list->element_type == gguf::ValueType::kString ||
      list->element_type == gguf::ValueType::kArray)
    return std::nullopt;
  int64_t max = 0;
  for (uint64_t i = 0; i < list->n; ++i) max = std::max(max, list->integer(i));
  return static_cast<uint64_t>(max);
}

Document config_of(const gguf::File& model, std::string_view architecture,
                   std::string_view class_name) {
  const auto number = [&](std::string_view key) {
    return number_of(model, fmt::format("{}.{}", architecture, key));
  };
  Document config = Document::object();
  config["architectures"] = Document::array({std::string(class_name)});
  for (const Field& field : kFields)
    if (const auto value = number(field.key)) config[std::string(field.field)] = *value;
  const uint64_t n_predicting = number("nextn_predict_layers").value_or(0);
  const uint64_t n_blocks = number("block_count").value_or(0);
  config["num_hidden_layers"] = n_blocks - std::min(n_blocks, n_predicting);
  const auto key_length = number("attention.key_length_mla");
  const auto rotating = number("rope.dimension_count");
  if (key_length && rotating && *key_length > *rotating)
    config["qk_nope_head_dim"] = *key_length - *rotating;
  if (const auto kv_heads = number("attention.head_count_kv"))
    config["multi_query"] = *kv_heads == 1;
  const gguf::Value* sections = model.find(fmt::format("{}.rope.dimension_sections", architecture));
  const auto head_len = number("attention.key_length");
  if (sections != nullptr && rotating && head_len && *head_len != 0) {
    const double share = static_cast<double>(*rotating) / static_cast<double>(*head_len);
    config["rope_parameters"] = {{"mrope_section", Document::array()},
                                 {"partial_rotary_factor", share}};
  }
  const auto inner = number("ssm.inner_size");
  const auto heads = number("ssm.time_step_rank");
  if (inner && heads && *heads != 0) config["linear_value_head_dim"] = *inner / *heads;
  return config;
}

}  // namespace

AdapterBase base_of(const Sources& sources) {
  const LanguageFamily* family = find_language_family(sources);
  if (family == nullptr) {
    throw Error(ErrorCode::kUnsupported, "the adapter's base is not a supported language model (" +
                                             ModelConfig(sources).class_name() + ")");
  }
  return {family, ModelConfig(sources, family->defaults)};
}

std::vector<AdapterBase> bases_of(const gguf::File& model) {
  const std::string_view architecture = model.require_string("general.architecture");
  std::vector<AdapterBase> bases;
  for (const LanguageFamily* family : language_families()) {
    if (family->architecture != architecture) continue;
    bases.push_back({family, ModelConfig(config_of(model, architecture, family->classes.front()))});
  }
  if (!bases.empty()) return bases;
  throw Error(ErrorCode::kUnsupported,
              fmt::format("adapters in safetensors for models of the architecture \"{}\" cannot be "
                          "converted; give a GGUF file of the adapter",
                          architecture));
}

}  // namespace billow::convert
