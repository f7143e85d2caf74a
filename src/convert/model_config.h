// What config.json says of a model: one object, in which the part for texts of a model with
// pictures lies over the rest, and what the model's own library takes for granted lies below.
// Fields have several spellings; the first that is there counts, and null is as absent. Every fault
// is an Error (kInvalidInput) that names the file and the field. Owns its values, which copies
// share; immutable; any thread.
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
  // `defaults` is a JSON object. Throws Error where config.json is missing or no object.
  explicit ModelConfig(const Sources& sources, std::string_view defaults = "{}");
  // For tests, and for a part of a configuration.
  explicit ModelConfig(const Document& merged);

  // The class that the text part, or else the whole, is made of: "LlamaForCausalLM".
  std::string class_name() const;
  bool has_other_parts() const noexcept { return has_parts_; }  // for pictures or sounds

  const Document* find(Spellings names) const;
  const Document* find(std::string_view name) const { return find({name}); }
  bool has(std::string_view name) const { return find(name) != nullptr; }

  std::optional<uint32_t> count(Spellings names) const;  // 0 to 2^31-1
  uint32_t require_count(Spellings names) const;
  uint32_t require_size(Spellings names) const;  // from 1
  std::optional<double> number(Spellings names) const;
  double require_number(Spellings names) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  std::optional<std::string> text(Spellings names) const;
  // One for each element; nullopt where it is absent or no array.
  std::optional<std::vector<std::string>> texts(std::string_view name) const;
  std::optional<std::vector<double>> numbers(std::string_view name) const;
  std::optional<std::vector<uint32_t>> counts(std::string_view name) const;
  // An object within; throws where it is missing.
  ModelConfig part(std::string_view name) const;

  // Sizes that nearly all have.
  uint32_t n_layers() const;
  uint32_t n_heads() const;
  uint32_t n_kv_heads() const;  // n_heads where it is not said
  uint32_t n_embd() const;
  uint32_t head_len() const;  // "head_dim", else the width by heads

  // "rope_parameters" or "rope_scaling" with what stands beside them in config.json: "rope_theta",
  // "partial_rotary_factor", "original_max_position_embeddings", and "sliding_attention" for layers
  // with a window.
  const Document& rope() const noexcept { return *rope_; }
  // The same for layers that see everything, where these have an object of their own.
  const Document& full_rope() const noexcept;
  std::optional<double> rope_number(std::string_view name) const;  // of full_rope()
  std::string rope_type() const;                                   // "default" where none is given
  // Which layers are of one kind by "layer_types"; empty where there is no such list.
  std::vector<bool> layers_of(std::string_view type) const;

  [[noreturn]] void refuse(std::string_view name, std::string_view what) const;
  [[noreturn]] void refuse_unknown(const std::string& what) const;  // kUnsupported

 private:
  void read_rope();

  std::shared_ptr<const Document> merged_;
  std::shared_ptr<const Document> rope_;
  bool has_parts_ = false;
};

// A number in an object; nullopt where it is absent, null or none.
std::optional<double> number_in(const Document& object, std::string_view name);

}  // namespace billow::convert
