// The types that a file can be quantised to. Each file type is a mixture of tensor types: a table
// of rules. Pure functions; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quant/type.h"
#include "quantize/tensor_class.h"

namespace billow::quantize {

// When a rule of a mixture holds. A rule looks at tensor number i of the n tensors of its class, or
// at block i of n blocks.
enum class When : uint8_t {
  kAlways,
  kFirst2,
  kFirst4,
  kFirstSixteenth,
  kFirstEighth,
  kMiddle,  // neither the first nor the last eighth
  kMore,    // the first eighth, the last eighth, and every third of the rest
  kGqa4,    // at least four query heads for each key head
  kGqa4OrExperts4,
  kExperts8,
  kExperts8AndMore,
  kNoImportance,
  kNoImportanceFirstEighth,
  kImportanceFirstEighth,
};

// The models that a rule is for: Falcon has some special rules.
enum class For : uint8_t { kAll, kFalcon, kOthers };

struct Rule {
  Class tensor_class;
  quant::Type type;
  When when = When::kAlways;
  For models = For::kAll;
};

struct FileType {
  std::string_view name;
  std::string_view alias;  // a second name; empty: none
  // The number in the key general.file_type. nullopt for COPY, which keeps the number of the
  // source.
  std::optional<uint32_t> number;
  quant::Type base;
  quant::Type output;           // of output.weight, or of the embeddings if they are tied
  std::span<const Rule> rules;  // the first that holds decides; if none holds: base
  bool two_bit = false;         // its rules count tensors even in models with experts
  bool experts_only = false;    // experts get the base type, all other matrices get `output`
  bool base_needs_importance = false;
};

// Returns the names of all file types, in the order in which the help lists them.
std::vector<std::string_view> file_type_names();
// Finds a file type by its name in any case. Q3_K, Q4_K and Q5_K mean their M mixture. Returns null
// for an unknown name.
const FileType* find_file_type(std::string_view name) noexcept;

}  // namespace billow::quantize
