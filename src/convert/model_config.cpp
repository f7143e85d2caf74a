#include "convert/model_config.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "base/json.h"

namespace billow::convert {
namespace {

constexpr const char* kFile = "config.json";
constexpr uint32_t kMaxLayers = 1024;
constexpr uint32_t kMaxHeadLen = 1024;
constexpr uint64_t kMaxCount = std::numeric_limits<int32_t>::max();
constexpr size_t kMaxList = 4096;

// Fields that contain the text part of models with several parts.
constexpr std::string_view kTextParts[] = {"text_config", "llm_config", "lm_config",
                                           "language_config", "lfm"};
constexpr std::string_view kOtherParts[] = {"vision_config", "audio_config", "vit_config",
                                            "vision_encoder_config"};

const Document* inside(const Document& object, std::string_view name) {
  const auto at = object.find(name);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

void lay_over(Document& below, const Document& above) {
  for (const auto& [name, value] : above.items()) {
    if (!value.is_null() || !below.contains(name)) below[name] = value;
  }
}

const Document* text_part(const Document& config) {
  if (const Document* thinker = inside(config, "thinker_config"); thinker && thinker->is_object())
    return inside(*thinker, "text_config");
  for (const std::string_view name : kTextParts) {
    const Document* part = inside(config, name);
    if (part != nullptr && part->is_object()) return part;
  }
  return nullptr;
}

}  // namespace

std::optional<double> number_in(const Document& object, std::string_view name) {
  const Document* value = inside(object, name);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->get<double>();
}

ModelConfig::ModelConfig(const Sources& sources, std::string_view defaults) {
  Document merged = Document::parse(defaults);
  auto document = sources.document(kFile);
  if (!document) {
    throw Error(ErrorCode::kInvalidInput, "config.json is missing; send it with the weights");
  }
  if (!document->is_object())
    throw Error(ErrorCode::kInvalidInput, "config.json: not a JSON object");
  for (const std::string_view name : kOtherParts)
    if (inside(*document, name) != nullptr) has_parts_ = true;
  if (inside(*document, "thinker_config") != nullptr) has_parts_ = true;
  if (const Document* names = inside(*document, "architectures");
      names != nullptr && names->is_array() && !names->empty() && names->front().is_string())
    whole_class_ = names->front().get<std::string>();
  lay_over(merged, *document);
  if (const Document* part = text_part(*document)) lay_over(merged, *part);
  // The outer value counts: the text part contains only the default of its own class.
  if (const Document* tied = inside(*document, "tie_word_embeddings"))
    merged["tie_word_embeddings"] = *tied;
  merged_ = std::make_shared<const Document>(std::move(merged));
  read_rope();
}

ModelConfig::ModelConfig(const Document& merged, std::string origin)
    : origin_(std::move(origin)), merged_(std::make_shared<const Document>(merged)) {
  BILLOW_CHECK(merged.is_object());
  read_rope();
}

std::string ModelConfig::class_name() const {
  const Document* names = find("architectures");
  if (names == nullptr || !names->is_array() || names->empty() || !names->front().is_string()) {
    refuse("architectures", "must name the model's class");
  }
  return names->front().get<std::string>();
}

void ModelConfig::refuse(std::string_view name, std::string_view what) const {
  throw Error(ErrorCode::kInvalidInput, fmt::format("{}: \"{}\" {}", origin_, name, what));
}

void ModelConfig::refuse_unknown(const std::string& what) const {
  throw Error(ErrorCode::kUnsupported, fmt::format("{}: {}", origin_, what));
}

const Document* ModelConfig::find(Spellings names) const {
  for (const std::string_view name : names)
    if (const Document* value = inside(*merged_, name)) return value;
  return nullptr;
}

std::optional<uint32_t> ModelConfig::count(Spellings names) const {
  const Document* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_unsigned() || value->get<uint64_t>() > kMaxCount) {
    refuse(*names.begin(), "must be a whole number from 0 to 2^31-1");
  }
  return static_cast<uint32_t>(value->get<uint64_t>());
}

uint32_t ModelConfig::require_count(Spellings names) const {
  const auto value = count(names);
  if (!value) refuse(*names.begin(), "is missing");
  return *value;
}

uint32_t ModelConfig::require_size(Spellings names) const {
  const uint32_t value = require_count(names);
  if (value == 0) refuse(*names.begin(), "must be from 1 to 2^31-1");
  return value;
}

std::optional<double> ModelConfig::number(Spellings names) const {
  const Document* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || !std::isfinite(value->get<double>())) {
    refuse(*names.begin(), "must be a number");
  }
  return value->get<double>();
}

double ModelConfig::require_number(Spellings names) const {
  const auto value = number(names);
  if (!value) refuse(*names.begin(), "is missing");
  return *value;
}

bool ModelConfig::flag(std::string_view name, bool otherwise) const {
  const Document* value = find(name);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) refuse(name, "must be true or false");
  return value->get<bool>();
}

std::optional<std::string> ModelConfig::text(Spellings names) const {
  const Document* value = find(names);
  if (value == nullptr) return std::nullopt;
  if (!value->is_string()) refuse(*names.begin(), "must be a string");
  return value->get<std::string>();
}

std::optional<std::vector<std::string>> ModelConfig::texts(std::string_view name) const {
  const Document* list = find(name);
  if (list == nullptr || !list->is_array()) return std::nullopt;
  if (list->size() > kMaxList) refuse(name, "has too many elements");
  std::vector<std::string> all;
  for (const Document& value : *list) {
    if (!value.is_string()) refuse(name, "must be a list of strings");
    all.push_back(value.get<std::string>());
  }
  return all;
}

std::optional<std::vector<double>> ModelConfig::numbers(std::string_view name) const {
  const Document* list = find(name);
  if (list == nullptr || !list->is_array()) return std::nullopt;
  if (list->size() > kMaxList) refuse(name, "has too many elements");
  std::vector<double> all;
  for (const Document& value : *list) {
    if (!value.is_number()) refuse(name, "must be a list of numbers");
    all.push_back(value.get<double>());
  }
  return all;
}

std::optional<std::vector<uint32_t>> ModelConfig::counts(std::string_view name) const {
  const auto list = numbers(name);
  if (!list) return std::nullopt;
  std::vector<uint32_t> all;
  for (const double value : *list) {
    if (value < 0 || value > static_cast<double>(kMaxCount) || value != std::floor(value)) {
      refuse(name, "must be a list of whole numbers from 0 to 2^31-1");
    }
    all.push_back(static_cast<uint32_t>(value));
  }
  return all;
}

ModelConfig ModelConfig::part(std::string_view name) const {
  const Document* value = find(name);
  if (value == nullptr || !value->is_object()) refuse(name, "must be an object");
  return ModelConfig(*value, origin_);
}

uint32_t ModelConfig::n_layers() const {
  const auto types = texts("layers_block_type");  // Nemotron H has no number of layers
  const auto given = count({"num_hidden_layers", "n_layers", "n_layer", "num_layers"});
  const uint32_t n = given || !types
                         ? require_size({"num_hidden_layers", "n_layers", "n_layer", "num_layers"})
                         : static_cast<uint32_t>(types->size());
  if (n > kMaxLayers) refuse("num_hidden_layers", "is more than 1024");
  return n;
}

uint32_t ModelConfig::n_heads() const {
  return require_size({"num_attention_heads", "n_head", "n_heads"});
}

uint32_t ModelConfig::n_kv_heads() const {
  const auto n = count({"num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv"});
  if (!n) return n_heads();
  if (*n == 0 || n_heads() % *n != 0) {
    refuse("num_key_value_heads", "does not divide the number of heads");
  }
  return *n;
}

uint32_t ModelConfig::n_embd() const {
  return require_size({"hidden_size", "n_embd", "d_model", "dim", "n_embed"});
}

uint32_t ModelConfig::head_len() const {
  uint32_t len = count({"head_dim"}).value_or(0);
  if (len == 0) {
    if (n_embd() % n_heads() != 0) {
      refuse("num_attention_heads", fmt::format("does not divide the width of {}", n_embd()));
    }
    len = n_embd() / n_heads();
  }
  if (len % 2 != 0 || len > kMaxHeadLen) refuse("head_dim", "must be even and at most 1024");
  return len;
}

void ModelConfig::read_rope() {
  Document rope = Document::object();
  const Document* given = find({"rope_parameters", "rope_scaling"});
  if (given != nullptr && given->is_object()) rope = *given;
  const bool is_complete = rope.contains("full_attention") || rope.contains("sliding_attention");
  const auto set = [&](const char* name, Spellings outside) {
    if (is_complete || inside(rope, name) != nullptr) return;
    if (const Document* value = find(outside)) rope[name] = *value;
  };
  if (const Document* local = find({"local_rope_theta", "rope_local_theta", "rope_theta_local",
                                    "swa_rope_theta", "rope_local_base_freq"});
      local != nullptr && !is_complete) {
    rope["sliding_attention"] = Document{{"rope_theta", *local}};
  }
  set("rope_theta", {"global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta",
                     "rotary_emb_base"});
  if (const Document* type = inside(rope, "type"); type && !inside(rope, "rope_type")) {
    const Document copy = *type;
    rope["rope_type"] = copy;
  }
  set("partial_rotary_factor", {"partial_rotary_factor", "rope_pct", "rope_percent"});
  set("original_max_position_embeddings", {"original_max_position_embeddings"});
  rope_ = std::make_shared<const Document>(std::move(rope));
}

const Document& ModelConfig::full_rope() const noexcept {
  const Document* full = inside(*rope_, "full_attention");
  return full != nullptr && full->is_object() ? *full : *rope_;
}

std::optional<double> ModelConfig::rope_number(std::string_view name) const {
  return number_in(full_rope(), name);
}

std::string ModelConfig::rope_type() const {
  const Document* type = inside(full_rope(), "rope_type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : "default";
}

std::vector<bool> ModelConfig::layers_of(std::string_view type) const {
  std::vector<bool> layers;
  const auto types = texts("layer_types");
  if (!types) return layers;
  if (types->size() < n_layers()) refuse("layer_types", "must have an element for each layer");
  for (const std::string& name : *types) layers.push_back(name == type);
  layers.resize(n_layers());
  return layers;
}

}  // namespace billow::convert
