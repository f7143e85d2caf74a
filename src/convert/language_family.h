// One family of language models that can be converted: its classes in Hugging Face's library, the
// architecture in GGUF, the names of its tensors, and its metadata. A family is data in a file of
// families/; language_families.cpp has the list. Plain data; any thread.
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
#include "convert/weights.h"

namespace billow::convert {

// How tensors of one name become tensors of the GGUF file. In `source`, "#" is the first number in
// the name, which is the layer's, and "*" one that stands behind it. A name ends without ".weight"
// or ".bias", which `target` gets then, or it is a whole name, and `target` too. Tensors of all
// numbers "*" (or "#" at the end, where `target` has none) become one tensor with a dimension more.
// Several rules may have the same source: each makes a tensor of it. An empty target leaves it out.
struct TensorRule {
  std::string_view source;
  std::string_view target;
  void (*shape)(Shaping& shaping) = nullptr;
  bool may_be_quantised = false;  // though its name is of those that are kept in F32
};
using TensorRules = std::span<const TensorRule>;

// Layers behind the last that only predict further tokens.
enum class Predicting : uint8_t { kUnknown, kLeftOut, kAppended };

// What a family's functions read.
struct LanguageModel {
  const ModelConfig& config;
  Weights& weights;
  uint32_t n_tokens = 0;            // rows of the table of tokens
  uint32_t n_predicting = 0;        // layers that were found and are appended
  std::string_view own_rotation{};  // a type of rotation that the family turns into keys by itself
  uint32_t n_blocks() const { return config.n_layers() + n_predicting; }
};

struct ComputedTensor {
  std::string name;
  std::vector<float> values;
};

struct LanguageFamily {
  std::span<const std::string_view> classes;
  std::string_view architecture;
  std::array<TensorRules, 8> rules;  // the first that know a name count
  void (*keys)(const LanguageModel& model, KeyWriter& keys);
  // What the library takes for granted where config.json does not say it: a JSON object.
  std::string_view defaults = "{}";
  std::string_view activations = "silu swish";  // of the feed-forward part; empty: any
  std::string_view own_rotation = "";           // a type of rotation that `keys` or `computed` know
  Predicting predicting = Predicting::kUnknown;
  // A tensor's name as the rules have it; empty: it is left out.
  std::string (*rename)(const ModelConfig& config, std::string name) = nullptr;
  // Done to each tensor behind its rule.
  void (*finish)(Shaping& shaping) = nullptr;
  // The architecture, where it depends on the configuration.
  std::string_view (*architecture_of)(const ModelConfig& config) = nullptr;
  // The family that a configuration of this class is of, where classes have several.
  const LanguageFamily& (*actual)(const ModelConfig& config) = nullptr;
  // Tensors that are made of the configuration.
  std::vector<ComputedTensor> (*computed)(const LanguageModel& model, KeyWriter& keys) = nullptr;

  // general.architecture of a model with this configuration.
  std::string_view architecture_name(const ModelConfig& config) const {
    return architecture_of != nullptr ? architecture_of(config) : architecture;
  }
};

// All, in the order in which documents list them.
std::span<const LanguageFamily* const> language_families() noexcept;
// The family of a class; null where there is none.
const LanguageFamily* find_language_family(std::string_view class_name) noexcept;
// Classes whose names resemble this one most, nearest first.
std::vector<std::string_view> nearest_classes(std::string_view class_name);

}  // namespace billow::convert
