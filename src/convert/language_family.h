// A family of language models that the converter supports: its classes in Hugging Face's library,
// its GGUF architecture, its tensor names and its metadata. Each family is data in a file of
// families/. language_families.cpp lists the families. Plain data, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "convert/key_writer.h"
#include "convert/model_config.h"
#include "convert/shaping.h"
#include "convert/tensor_rules.h"
#include "convert/weights.h"

namespace billow::convert {

// Layers after the last one that only predict further tokens.
enum class Predicting : uint8_t { kUnknown, kLeftOut, kAppended };

// Input of a family's functions.
struct LanguageModel {
  const ModelConfig& config;
  Weights& weights;
  uint32_t n_tokens = 0;            // rows of the token table
  uint32_t n_predicting = 0;        // predicting layers that are present and appended
  std::string_view own_rotation{};  // a rotation type that the family itself turns into keys
  uint32_t n_blocks() const { return config.n_layers() + n_predicting; }
};

struct ComputedTensor {
  std::string name;
  std::vector<float> values;
};

struct LanguageFamily {
  std::span<const std::string_view> classes;
  std::string_view architecture;
  std::array<TensorRules, 8> rules;  // the first rules that match a name apply
  void (*keys)(const LanguageModel& model, KeyWriter& keys);
  // Defaults of Hugging Face's library for fields that config.json omits: a JSON object.
  std::string_view defaults = "{}";
  std::string_view activations = "silu swish";  // of the feed-forward part; empty: any
  std::string_view own_rotation = "";           // a rotation type that `keys` or `computed` handles
  Predicting predicting = Predicting::kUnknown;
  // Returns the tensor name that the rules expect. An empty name drops the tensor.
  std::string (*rename)(const ModelConfig& config, std::string name) = nullptr;
  // Runs on each tensor after its rule.
  void (*finish)(Shaping& shaping) = nullptr;
  // Returns the architecture, if it depends on the configuration.
  std::string_view (*architecture_of)(const ModelConfig& config) = nullptr;
  // Returns the family of a configuration, if several families share a class.
  const LanguageFamily& (*actual)(const ModelConfig& config) = nullptr;
  // Returns tensors that are computed from the configuration.
  std::vector<ComputedTensor> (*computed)(const LanguageModel& model, KeyWriter& keys) = nullptr;

  // Returns general.architecture of a model with this configuration.
  std::string_view architecture_name(const ModelConfig& config) const {
    return architecture_of != nullptr ? architecture_of(config) : architecture;
  }
};

// Returns all families, in the order of the documents.
std::span<const LanguageFamily* const> language_families() noexcept;
// Returns the family of a class, or null if there is none.
const LanguageFamily* find_language_family(std::string_view class_name) noexcept;
// Returns whether a model of this class has a text part that may be of several families, which only
// the text part's model_type shows.
bool has_any_text_part(std::string_view class_name) noexcept;
// Returns the family of a text part with this model_type, or null if there is none.
const LanguageFamily* find_text_family(std::string_view model_type) noexcept;
// Returns the class names that resemble this name most, nearest first.
std::vector<std::string_view> nearest_classes(std::string_view class_name);

}  // namespace billow::convert
