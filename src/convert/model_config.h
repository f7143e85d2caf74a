// The content of config.json as one object. If a model has vision or audio parts, the fields of the
// text part override the outer fields. The library's defaults fill missing fields. If a field has
// several spellings, the first spelling that exists counts. Null equals absent. Every error is an
// Error (kInvalidInput) that names the file and the field. Owns its values; copies share them.
// Immutable, thread-safe.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "convert/json_document.h"
#include "convert/sources.h"

namespace billow::convert {

using Spellings = std::initializer_list<std::string_view>;

class ModelConfig {
 public:
  // REQUIRES: `defaults` is a JSON object. Throws Error if config.json is missing or not an object.
  explicit ModelConfig(const Sources& sources, std::string_view defaults = "{}");
  // For tests and for parts of a configuration. Messages of errors begin with `origin`.
  explicit ModelConfig(const Document& merged, std::string origin = "config.json");

  // Returns the class of the text part or else of the whole model: "LlamaForCausalLM".
  std::string class_name() const;
  // Returns the class of the whole model, or an empty text if this is a part of a configuration.
  const std::string& whole_class_name() const noexcept { return whole_class_; }
  bool has_other_parts() const noexcept { return has_parts_; }  // vision or audio

  const Document* find(Spellings names) const;
  const Document* find(std::string_view name) const { return find({name}); }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  std::optional<uint32_t> count(Spellings names) const;  // 0 to 2^31-1
  uint32_t require_count(Spellings names) const;
  uint32_t require_size(Spellings names) const;  // at least 1
  std::optional<double> number(Spellings names) const;
  double require_number(Spellings names) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  std::optional<std::string> text(Spellings names) const;
  // These return one value per element, or nullopt if the field is absent or not an array.
  std::optional<std::vector<std::string>> texts(std::string_view name) const;
  std::optional<std::vector<double>> numbers(std::string_view name) const;
  std::optional<std::vector<uint32_t>> counts(std::string_view name) const;
  // Returns a nested object. Throws Error if it is missing.
  ModelConfig part(std::string_view name) const;

  // Sizes that nearly all models have.
  uint32_t n_layers() const;
  uint32_t n_heads() const;
  uint32_t n_kv_heads() const;  // n_heads if the field is absent
  uint32_t n_embd() const;
  uint32_t head_len() const;  // "head_dim", or else n_embd / n_heads

  // Returns "rope_parameters" or "rope_scaling". The result also contains fields that config.json
  // stores outside these objects: "rope_theta", "partial_rotary_factor",
  // "original_max_position_embeddings", and "sliding_attention" for layers with a window.
  const Document& rope() const noexcept { return *rope_; }
  // Returns the rotation of layers that see all positions, if they have their own object; else
  // rope().
  const Document& full_rope() const noexcept;
  std::optional<double> rope_number(std::string_view name) const;  // from full_rope()
  std::string rope_type() const;  // "default" if the field is absent
  // Returns which layers "layer_types" lists as `type`. Returns an empty list if the field is
  // absent.
  std::vector<bool> layers_of(std::string_view type) const;

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;
  [[noreturn]] void refuse_unknown(const std::string& what) const;  // kUnsupported

 private:
  void read_rope();

  std::string origin_ = "config.json";
  std::string whole_class_;
  std::shared_ptr<const Document> merged_;
  std::shared_ptr<const Document> rope_;
  bool has_parts_ = false;
};

// Returns a number of an object; nullopt if the field is absent, null or not a number.
std::optional<double> number_in(const Document& object, std::string_view name);

}  // namespace billow::convert
