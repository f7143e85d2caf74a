// The types that a file can be quantised to, and the mixture of tensor types that each stands for:
// a table of rules. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quant/type.h"
#include "quantize/tensor_class.h"

namespace billow::quantize {

// When a rule of a mixture holds, of tensor number i of n in its class (or of block i of n).
enum class When : uint8_t {
  kAlways,
  kFirst2,
  kFirst4,
  kFirstSixteenth,
  kFirstEighth,
  kMiddle,  // neither the first nor the last eighth
  kMore,    // the first and the last eighth, and of the others each third
  kGqa4,    // four or more query heads a key head
  kGqa4OrExperts4,
  kExperts8,
  kExperts8AndMore,
  kNoImportance,
  kNoImportanceFirstEighth,
  kImportanceFirstEighth,
};

// Falcon has a few rules of its own.
enum class For : uint8_t { kAll, kFalcon, kOthers };

struct Rule {
  Class tensor_class;
  quant::Type type;
  When when = When::kAlways;
  For models = For::kAll;
};

struct FileType {
  std::string_view name;
  std::string_view alias;  // another name; empty: none
  // In the key general.file_type; nullopt for COPY, which keeps the source's.
  std::optional<uint32_t> number;
  quant::Type base;
  quant::Type output;           // output.weight, or the embeddings where they are tied
  std::span<const Rule> rules;  // the first that holds; none: base
  bool two_bit = false;         // its rules count tensors also where a model has experts
  bool experts_only = false;    // the base type for experts, output for all others
  bool base_needs_importance = false;
};

// The names of all that may be asked for, in the order in which help lists them.
std::vector<std::string_view> file_type_names();
// By its name in any case; Q3_K, Q4_K and Q5_K mean their M mixture. Null for an unknown name.
const FileType* find_file_type(std::string_view name) noexcept;
// The names most like this one, for a message: at most three.
std::vector<std::string_view> similar_file_types(std::string_view name);

}  // namespace billow::quantize
