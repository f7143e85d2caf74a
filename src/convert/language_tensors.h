// Plans the tensors of a language model's GGUF file. Finds the rule of the family for each tensor
// of the checkpoint. Not thread-safe.
#pragma once

#include <string>
#include <vector>

#include "convert/language_family.h"
#include "convert/planned_tensor.h"

namespace billow::convert {

struct LanguagePlan {
  std::vector<PlannedTensor> tensors;  // in layer order
  uint32_t n_predicting = 0;           // appended layers after the last one
  size_t n_of_pictures = 0;            // dropped tensors of vision parts
  size_t n_of_sounds = 0;              // dropped tensors of audio parts
  size_t n_left_predicting = 0;        // dropped tensors of layers that only predict further tokens
};

// Takes the tensors that it uses from `weights`. Throws Error (kInvalidInput) for a tensor without
// a known use, for a shape that does not fit, and for missing parts.
LanguagePlan plan_language_tensors(const LanguageFamily& family, const ModelConfig& config,
                                   Weights& weights);

// Plans only the matrices in `names`. REQUIRES: `weights` contains them. A name without a known use
// gives no tensor, and a name of a part that GGUF files omit gives none either.
std::vector<PlannedTensor> plan_language_matrices(const LanguageFamily& family,
                                                  const ModelConfig& config, Weights& weights,
                                                  const std::vector<std::string>& names);

// Returns whether a tensor stays in F32 in every file, given its name and dimensions.
bool is_kept_in_f32(std::string_view name, size_t n_dims);

}  // namespace billow::convert
